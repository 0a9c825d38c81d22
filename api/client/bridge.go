package client

import (
	"context"
	"net/http"
	"net/url"

	"gateway/api"
)

// Replay processes an event again.
func (c *Client) Replay(ctx context.Context, id string) (api.Replayed, error) {
	var replayed api.Replayed
	err := c.call(ctx, http.MethodPost, "/v1/replay/"+url.PathEscape(id), nil, nil, &replayed)

	return replayed, err
}

// DeadLetters returns what could not be processed, oldest first; source and name may be empty.
func (c *Client) DeadLetters(ctx context.Context, source, name string) (api.DeadLetters, error) {
	query := url.Values{}

	for key, value := range map[string]string{"source": source, "name": name} {
		if value != "" {
			query.Set(key, value)
		}
	}

	var letters api.DeadLetters
	err := c.call(ctx, http.MethodGet, "/v1/deadletters", query, nil, &letters)

	return letters, err
}

// DeadLetter returns the newest dead letter of an event, with its data where that may be shown.
func (c *Client) DeadLetter(ctx context.Context, id string) (api.DeadLetter, error) {
	var letter api.DeadLetter
	err := c.call(ctx, http.MethodGet, "/v1/deadletters/"+url.PathEscape(id), nil, nil, &letter)

	return letter, err
}

// Redeliver processes dead letters again.
func (c *Client) Redeliver(ctx context.Context, q api.LettersRequest) (api.Redelivered, error) {
	var done api.Redelivered
	err := c.call(ctx, http.MethodPost, "/v1/deadletters/replay", nil, q, &done)

	return done, err
}

// Purge puts dead letters out of sight.
func (c *Client) Purge(ctx context.Context, q api.LettersRequest) (api.Purged, error) {
	var done api.Purged
	err := c.call(ctx, http.MethodPost, "/v1/deadletters/purge", nil, q, &done)

	return done, err
}

// WhyEvent tells what an event, or a command, led to.
func (c *Client) WhyEvent(ctx context.Context, id string) (api.Story, error) {
	var story api.Story
	err := c.call(ctx, http.MethodGet, "/v1/why/event/"+url.PathEscape(id), nil, nil, &story)

	return story, err
}

// Why tells what led to an object as it is.
func (c *Client) Why(ctx context.Context, kind, name string) (api.Story, error) {
	var story api.Story
	err := c.call(ctx, http.MethodGet, objectPath("why", kind, name), nil, nil, &story)

	return story, err
}
