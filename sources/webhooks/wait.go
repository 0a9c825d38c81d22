package webhooks

import (
	"context"
	"net/http"
	"time"

	"github.com/cosi-project/runtime/pkg/state"

	"gateway/resources"
)

// result is what became of an event, as ?wait answers it.
type result struct {
	Processed bool                      `json:"processed"`
	Error     string                    `json:"error,omitempty"`
	Objects   []resources.AppliedObject `json:"objects,omitempty"`
}

// waitOf returns how long a request wants to wait for the outcome: ?wait=10s, at most maxWait.
func waitOf(r *http.Request) (time.Duration, error) {
	text := r.URL.Query().Get("wait")
	if text == "" {
		return 0, nil
	}

	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 || wait > maxWait {
		return 0, refuse(http.StatusBadRequest, "invalid-wait", "wait is a duration up to %s, as 10s", maxWait)
	}

	return wait, nil
}

// await answers at once, or, with ?wait=10s, when the event was processed: 200 with what became of it, 422 where its
// documents are not in force, 202 when the time is over.
func (s *Server) await(r *http.Request, body *answer, wait time.Duration) (int, *answer, error) {
	if wait == 0 || body.ID == "" {
		return http.StatusAccepted, body, nil
	}

	select {
	case s.waiters <- struct{}{}:
		defer func() { <-s.waiters }()
	default:
		return http.StatusAccepted, body, nil
	}

	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()

	if !s.processed(ctx, body.ID) {
		return http.StatusAccepted, body, nil
	}

	body.Result = &result{Processed: true}

	applied, err := s.State.Get(ctx, resources.NewApplyResult(body.ID).Metadata())
	if err != nil {
		return http.StatusOK, body, nil //nolint:nilerr // nothing was applied
	}

	if spec, ok := applied.Spec().(*resources.ApplyResultSpec); ok {
		body.Result.Error, body.Result.Objects = spec.Error, spec.Objects

		if spec.Error != "" {
			return http.StatusUnprocessableEntity, body, nil
		}
	}

	return http.StatusOK, body, nil
}

// processed reports whether nobody has to handle the event any more, false when ctx ends first.
func (s *Server) processed(ctx context.Context, id string) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	events := make(chan state.Event)
	if err := s.State.Watch(ctx, resources.NewWebhookEvent(id).Metadata(), events); err != nil {
		return false
	}

	for {
		select {
		case <-ctx.Done():
			return false
		case e := <-events:
			switch {
			case e.Type == state.Errored:
				return false
			case e.Type == state.Destroyed, e.Resource.Metadata().Finalizers().Empty():
				return true
			}
		}
	}
}
