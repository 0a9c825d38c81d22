package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"gateway/api"
	"gateway/config"
	"gateway/resources"
)

// Object is config.Object as it came, with its halves undecoded: encoding it again gives the same JSON, also where the gateway
// is of a newer version.
type Object struct {
	APIVersion string                `json:"apiVersion"`
	Kind       string                `json:"kind"`
	Metadata   config.ObjectMetadata `json:"metadata"`
	Spec       json.RawMessage       `json:"spec,omitempty"`
	Status     json.RawMessage       `json:"status,omitempty"`
}

// List is several objects.
type List struct {
	Items []Object `json:"items"`
}

// Description is api.Description with its object undecoded.
type Description struct {
	api.Description

	Object Object `json:"object"`
}

// StatusOf decodes what was observed of the object: into a zero value where nothing was yet.
func StatusOf[S any](o *Object) (S, error) {
	var status S

	err := decodeInto(o, o.Status, &status)

	return status, err
}

// SpecOf decodes what was declared of the object.
func SpecOf[S any](o *Object) (S, error) {
	var spec S

	err := decodeInto(o, o.Spec, &spec)

	return spec, err
}

func decodeInto(o *Object, text json.RawMessage, into any) error {
	if len(text) == 0 {
		return nil
	}

	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("error reading %s/%s: %w", o.Kind, o.Metadata.Name, err)
	}

	return nil
}

// List returns the objects of a kind, sorted by name; selector as in api.ParseSelector, empty: all.
func (c *Client) List(ctx context.Context, kind, selector string) (List, error) {
	query := url.Values{}
	if selector != "" {
		query.Set("selector", selector)
	}

	var list List
	err := c.call(ctx, http.MethodGet, "/v1/objects/"+url.PathEscape(kind), query, nil, &list)

	return list, err
}

// Get returns one object; IsNotFound tells an error where there is none.
func (c *Client) Get(ctx context.Context, kind, name string) (Object, error) {
	var object Object
	err := c.call(ctx, http.MethodGet, objectPath("objects", kind, name), nil, nil, &object)

	return object, err
}

// Describe returns everything about one object.
func (c *Client) Describe(ctx context.Context, kind, name string) (Description, error) {
	var description Description
	err := c.call(ctx, http.MethodGet, objectPath("describe", kind, name), nil, nil, &description)

	return description, err
}

// Delete takes an object away: it starts the teardown. With force also one that somebody else declares.
func (c *Client) Delete(ctx context.Context, kind, name string, force bool) error {
	_, err := c.Remove(ctx, kind, name, force)

	return err
}

// Remove is Delete, and names what is given up by force, and who keeps the object from going.
func (c *Client) Remove(ctx context.Context, kind, name string, force bool) (api.Deleted, error) {
	query := url.Values{}
	if force {
		query.Set("force", "true")
	}

	var deleted api.Deleted

	err := c.call(ctx, http.MethodDelete, objectPath("objects", kind, name), query, nil, &deleted)

	return deleted, err
}

// Apply declares the documents of one file. file is what messages name. The outcome of each object is in the answer: one that
// is refused is no error here.
func (c *Client) Apply(ctx context.Context, file string, documents []byte, dryRun bool) ([]resources.AppliedObject, error) {
	query := url.Values{"file": {file}}
	if dryRun {
		query.Set("dryRun", "true")
	}

	var applied api.Applied

	err := c.call(ctx, http.MethodPost, "/v1/apply", query, documents, &applied)

	return applied.Objects, err
}

// Diff returns what documents would change, and changes nothing.
func (c *Client) Diff(ctx context.Context, request api.DiffRequest) (api.Diff, error) {
	var diff api.Diff
	err := c.call(ctx, http.MethodPost, "/v1/diff", nil, request, &diff)

	return diff, err
}

func objectPath(operation, kind, name string) string {
	return "/v1/" + operation + "/" + url.PathEscape(kind) + "/" + url.PathEscape(name)
}
