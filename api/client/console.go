package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"gateway/api"
)

// Console attaches to the serial console of a VM, in place of somebody else where that is forced. What is read comes from the
// guest, what is written goes to it; Read returns io.EOF when the console has ended. ctx is for attaching only.
func (c *Client) Console(ctx context.Context, vm string, force bool) (io.ReadWriteCloser, error) {
	target := "http://gateway/v1/console/" + url.PathEscape(vm)
	if force {
		target += "?force=true"
	}

	// The connection outlives ctx, which would end it.
	request, err := http.NewRequest(http.MethodGet, target, nil)
	if err != nil {
		return nil, fmt.Errorf("error making a request: %w", err)
	}

	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", api.ConsoleProtocol)

	limited, attached := context.WithCancel(context.Background())
	release := context.AfterFunc(ctx, attached)

	response, err := c.http.Do(request.WithContext(limited))
	if !release() && err == nil {
		return nil, context.Cause(ctx)
	}

	if err != nil {
		return nil, c.failed(ctx, err)
	}

	if response.StatusCode != http.StatusSwitchingProtocols {
		defer response.Body.Close() //nolint:errcheck // what is of interest was read

		return nil, problemOf(response)
	}

	stream, ok := response.Body.(io.ReadWriteCloser)
	if !ok {
		return nil, fmt.Errorf("the gateway's answer can't be written to; is it of another version?")
	}

	return stream, nil
}
