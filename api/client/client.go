package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"

	"gateway/api"
)

// Client speaks to one gateway. It may be used by several goroutines.
type Client struct {
	path string
	http *http.Client
}

func newClient(path string) *Client {
	return &Client{path: path, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, path) },
	}}}
}

// Socket is the path of the gateway's socket.
func (c *Client) Socket() string { return c.path }

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// ProblemError is a request that the gateway refused, or could not carry out.
type ProblemError struct {
	api.Problem

	// Status is the HTTP status.
	Status int
}

// Error has one line for each fault.
func (e *ProblemError) Error() string { return strings.Join(e.Errors, "\n") }

// IsNotFound reports whether the error says that the object is not there.
func IsNotFound(err error) bool {
	problem, ok := errors.AsType[*ProblemError](err)

	return ok && problem.Status == http.StatusNotFound
}

// call sends a request and decodes the answer.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, body, answer any) error {
	var content []byte

	switch b := body.(type) {
	case nil:
	case []byte:
		content = b
	default:
		var err error
		if content, err = json.Marshal(b); err != nil {
			return fmt.Errorf("error encoding a request: %w", err)
		}
	}

	response, err := c.open(ctx, method, path, query, content)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // read to its end, or given up

	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return fmt.Errorf("error reading the gateway's answer: %w", err)
	}

	return nil
}

// open sends a request and returns the answer, which is one of success.
func (c *Client) open(ctx context.Context, method, path string, query url.Values, content []byte) (*http.Response, error) {
	target := "http://gateway" + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}

	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("error making a request: %w", err)
	}

	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.failed(ctx, err)
	}

	if response.StatusCode < http.StatusMultipleChoices {
		return response, nil
	}
	defer response.Body.Close() //nolint:errcheck // what is of interest was read

	return nil, problemOf(response)
}

// failed tells a gateway that is not there from a request that went wrong.
func (c *Client) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	// The URL that net/http wraps around is not the one that the user gave.
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}

	cause, ok := errors.AsType[syscall.Errno](err)
	if !ok || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("error asking the gateway on %s: %w", c.path, err)
	}

	switch {
	case errors.Is(cause, os.ErrNotExist), errors.Is(cause, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: none listens on %s", ErrUnreachable, c.path)
	case errors.Is(cause, os.ErrPermission):
		return fmt.Errorf("%w: %s may not be opened by this user", ErrUnreachable, c.path)
	}

	return fmt.Errorf("%w: %s: %w", ErrUnreachable, c.path, cause)
}

// maxProblem bounds what is read of an answer that is no success: 100 faults of a file fit.
const maxProblem = 1 << 20

func problemOf(response *http.Response) error {
	problem := &ProblemError{Status: response.StatusCode}

	data, err := io.ReadAll(io.LimitReader(response.Body, maxProblem))
	if err == nil {
		err = json.Unmarshal(data, &problem.Problem)
	}

	if err != nil || len(problem.Errors) == 0 {
		problem.Errors = []string{fmt.Sprintf("the gateway answered %s; is it of another version?", response.Status)}
	}

	return problem
}
