package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// Backup writes a backup of the gateway's store. One that is cut off is an error.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	response, err := c.open(ctx, http.MethodGet, "/v1/store/backup", nil, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // read to its end, or given up

	n, err := io.Copy(w, response.Body)
	if err == nil && n != response.ContentLength {
		err = io.ErrUnexpectedEOF
	}

	if err != nil {
		return fmt.Errorf("error taking the backup, %d of %d bytes: %w", n, response.ContentLength, err)
	}

	return nil
}
