package api

import (
	"context"
	"net/http"
	"time"

	"gateway/broker"
)

// Broker is what the operations ask NATS for; broker.Reader is one.
type Broker interface {
	Published(ctx context.Context, kind, name string, since time.Time, limit int) ([]broker.Published, error)
	DeadLetters(ctx context.Context, limit int) ([]broker.DeadLetter, error)
	PurgeDead(ctx context.Context, taken func(broker.DeadLetter) bool) (int, error)
}

// bridgeRoutes are the operations about events.
func (o *operations) bridgeRoutes() map[string]func(http.ResponseWriter, *http.Request) error {
	return map[string]func(http.ResponseWriter, *http.Request) error{
		"POST /v1/replay/{id}":        o.replay,
		"GET /v1/deadletters":         o.deadLetters,
		"GET /v1/deadletters/{id}":    o.deadLetter,
		"POST /v1/deadletters/replay": o.redeliverLetters,
		"POST /v1/deadletters/purge":  o.purgeLetters,
		"GET /v1/why/event/{id}":      o.whyEvent,
		"GET /v1/why/{kind}/{name}":   o.whyObject,
	}
}

func (o *operations) deadLetters(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()

	letters, err := o.Letters(r.Context(), q.Get("source"), q.Get("name"))
	if err != nil {
		return err
	}

	writeJSON(w, http.StatusOK, letters)

	return nil
}

func (o *operations) deadLetter(w http.ResponseWriter, r *http.Request) error {
	letter, err := o.Letter(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}

	writeJSON(w, http.StatusOK, letter)

	return nil
}

func (o *operations) redeliverLetters(w http.ResponseWriter, r *http.Request) error {
	var request LettersRequest
	if err := decode(r, &request); err != nil {
		return err
	}

	answer, err := o.Redeliver(r.Context(), callerOf(r), request)
	if err != nil {
		return err
	}

	writeJSON(w, http.StatusOK, answer)

	return nil
}

func (o *operations) purgeLetters(w http.ResponseWriter, r *http.Request) error {
	var request LettersRequest
	if err := decode(r, &request); err != nil {
		return err
	}

	answer, err := o.Purge(r.Context(), callerOf(r), request)
	if err != nil {
		return err
	}

	writeJSON(w, http.StatusOK, answer)

	return nil
}
