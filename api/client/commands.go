package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"gateway/api"
	"gateway/resources"
	"gateway/store"
)

// Version returns what the gateway says it is.
func (c *Client) Version(ctx context.Context) (api.Version, error) {
	var version api.Version
	err := c.call(ctx, http.MethodGet, "/v1/version", nil, nil, &version)

	return version, err
}

// Power lays a power state above a VM's document, for a time or (0) until it ends otherwise.
func (c *Client) Power(ctx context.Context, vm, power string, duration time.Duration) error {
	return c.command(ctx, "power", api.PowerRequest{VM: vm, Power: power, For: resources.Duration(duration)})
}

// Declared ends the override of a VM.
func (c *Client) Declared(ctx context.Context, vm string) error {
	return c.command(ctx, "power", api.PowerRequest{VM: vm, Power: api.DeclaredPower})
}

// Restart stops and starts a VM once.
func (c *Client) Restart(ctx context.Context, vm string) error {
	return c.command(ctx, "restart", api.RestartRequest{VM: vm})
}

// Hold stops reconciling an object.
func (c *Client) Hold(ctx context.Context, kind, name, reason string) error {
	return c.command(ctx, "hold", api.ObjectRequest{Kind: kind, Name: name, Reason: reason})
}

// Release ends a hold.
func (c *Client) Release(ctx context.Context, kind, name string) error {
	return c.command(ctx, "release", api.ObjectRequest{Kind: kind, Name: name})
}

// Sync asks for objects to be reconciled now.
func (c *Client) Sync(ctx context.Context, target resources.Target) error {
	return c.command(ctx, "sync", target)
}

// Confirm lets the held-back mass deletion of a documents directory proceed, and returns what it takes away.
func (c *Client) Confirm(ctx context.Context, root string) (resources.DeletionGuardSpec, error) {
	var guard resources.DeletionGuardSpec
	err := c.call(ctx, http.MethodPost, "/v1/confirm", nil, api.ConfirmRequest{Root: root}, &guard)

	return guard, err
}

func (c *Client) command(ctx context.Context, name string, body any) error {
	return c.call(ctx, http.MethodPost, "/v1/"+name, nil, body, &json.RawMessage{})
}

// Journal returns entries of the journal, oldest first. With a wait it waits so long, at most a minute, for an entry where
// there is none.
func (c *Client) Journal(ctx context.Context, q store.Query, wait time.Duration) ([]store.Entry, error) {
	query := url.Values{}

	for key, value := range map[string]string{"source": q.Source, "name": q.Name, "event": q.EventID, "object": q.Object} {
		if value != "" {
			query.Set(key, value)
		}
	}

	for _, class := range q.Classes {
		query.Set("class", joined(query.Get("class"), string(class)))
	}

	if q.After > 0 {
		query.Set("after", strconv.FormatUint(q.After, 10))
	}

	if q.Limit > 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}

	if wait > 0 {
		query.Set("wait", wait.String())
	}

	var page api.JournalPage
	err := c.call(ctx, http.MethodGet, "/v1/journal", query, nil, &page)

	return page.Entries, err
}

func joined(list, item string) string {
	if list == "" {
		return item
	}

	return list + "," + item
}
