package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cosi-project/runtime/pkg/state"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"gateway/resources"
	"gateway/sources/intake"
	"gateway/store"
)

// Options configure the source.
type Options struct {
	State   state.State
	Barrier store.Barrier
	Journal store.Journal
	// Pacer holds intake up while controllers have too much to do; nil: never.
	Pacer   intake.Pacer
	Metrics *intake.Metrics
	Logger  *zap.Logger
}

// Limits of all routes together, beside that of pending events. A request that can't be kept within storeTimeout is told
// to come again after retrySoon seconds.
const (
	storeTimeout = 10 * time.Second
	retrySoon    = 5
	maxWait      = 60 * time.Second
	maxWaiters   = 256
)

// Server answers POST /hooks/NAME. It lives as long as the process; the controller changes its routes.
type Server struct {
	Options

	// routes is nil until the controller has read the documents of the store: until then nobody knows what is a route.
	routes  atomic.Pointer[map[string]*route]
	pending *intake.Pending
	order   *intake.Order
	locks   keyLocks
	waiters chan struct{}
	bodies  *semaphore.Weighted
}

// NewServer returns a server without routes.
func NewServer(o Options) *Server {
	kind := resources.KindOf(resources.NewWebhookEvent("").Metadata())

	return &Server{
		Options: o, waiters: make(chan struct{}, maxWaiters), bodies: newSpace(allBodies),
		pending: intake.NewPending(o.State, kind, resources.SourceWebhook, o.Metrics, o.Logger),
		order:   intake.NewOrder(o.State, kind),
	}
}

// Run counts pending events until ctx ends.
func (s *Server) Run(ctx context.Context) error { return s.pending.Run(ctx) }

// Handler answers below /hooks/.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// answer is the body of a 2xx answer.
type answer struct {
	ID        string   `json:"id,omitempty"`
	IDs       []string `json:"ids,omitempty"`
	Duplicate bool     `json:"duplicate,omitempty"`
	// Result is what became of it, with ?wait.
	Result *result `json:"result,omitempty"`
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	name, routes := r.URL.Path[len("/hooks/"):], s.routes.Load()

	if routes == nil {
		// A 404 would tell the sender never to come again.
		s.Metrics.Refused(resources.SourceWebhook, "starting")
		writeError(w, later(http.StatusServiceUnavailable, "starting", "the gateway is starting"))

		return
	}

	route := (*routes)[name]

	if route == nil {
		s.Metrics.Refused(resources.SourceWebhook, "unknown-route")
		writeError(w, refuse(http.StatusNotFound, "unknown-route", "there is no such webhook"))

		return
	}

	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		s.refuse(w, r, route, refuse(http.StatusMethodNotAllowed, "method", "only POST is taken"))

		return
	}

	status, body, err := s.receive(w, r, route)
	if err != nil {
		s.refuse(w, r, route, err)

		return
	}

	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)

	if err := json.NewEncoder(w).Encode(body); err != nil {
		s.Logger.Debug("an answer could not be sent", zap.String("webhook", name), zap.Error(err))
	}
}

// receive takes one request through its steps. Errors are refusals.
func (s *Server) receive(w http.ResponseWriter, r *http.Request, route *route) (int, *answer, error) {
	limits := route.spec.Limits

	peer := peerOf(r, route.proxies)
	if len(route.allow) > 0 && !contains(route.allow, peer) {
		return 0, nil, refuse(http.StatusForbidden, "peer", "this address may not send here")
	}

	if route.ready() != nil {
		return 0, nil, later(http.StatusServiceUnavailable, "not-ready", "the webhook is not ready")
	}

	if !route.limiter.Allow() {
		return 0, nil, later(limits.Overload, "rate", "too many requests")
	}

	select {
	case route.slots <- struct{}{}:
		defer func() { <-route.slots }()
	default:
		return 0, nil, later(limits.Overload, "concurrency", "too many requests at once")
	}

	wait, err := waitOf(r)
	if err != nil {
		return 0, nil, err
	}

	events, err := s.open(w, r, route, peer)
	if err != nil {
		return 0, nil, err
	}

	return s.keep(r, route, events, wait)
}

// open reads the body, verifies its sender and makes its events.
func (s *Server) open(w http.ResponseWriter, r *http.Request, route *route, peer netip.Addr) ([]*resources.WebhookEvent, error) {
	space := &space{route: route.bodies, all: s.bodies}
	// What is of a known sender is bounded as pending events are.
	defer space.release()

	raw, err := readBody(w, r, int64(route.spec.Limits.Body), route.spec.Limits.Timeout.Std(), space)
	if err != nil {
		return nil, err
	}

	if err := route.verifier.verify(r, raw); err != nil {
		return nil, refuse(http.StatusUnauthorized, "unauthenticated", "%s", err)
	}

	return newDelivery(route, r, peer, raw)
}

// keep stores the events and answers once they are durable.
func (s *Server) keep(r *http.Request, route *route, events []*resources.WebhookEvent, wait time.Duration) (int, *answer, error) {
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()

	if s.pending.Full() {
		return 0, nil, later(http.StatusServiceUnavailable, "pending", "too many events wait to be processed")
	}

	if s.Pacer != nil {
		if err := s.Pacer.Wait(ctx); err != nil {
			return 0, nil, later(http.StatusServiceUnavailable, "busy", "the gateway is busy")
		}
	}

	body := &answer{}

	for _, event := range events {
		duplicate, err := s.store(ctx, event)
		if refused, ok := errors.AsType[*refusal](err); ok {
			return 0, nil, refused
		}

		if err != nil {
			s.Logger.Error("an event could not be stored", zap.String("webhook", route.name), zap.Error(err))

			return 0, nil, later(http.StatusServiceUnavailable, "store", "the event could not be stored")
		}

		id := event.TypedSpec().Event.ID
		body.IDs = append(body.IDs, id)
		body.Duplicate = duplicate

		route.note(func(c *resources.SourceCounts) {
			if duplicate {
				c.Duplicates++

				return
			}

			c.Received++
			c.LastEvent, c.LastReceived = id, event.TypedSpec().Event.Received
		})

		if !duplicate {
			s.Metrics.Received(resources.SourceWebhook)
		}
	}

	// A duplicate waits too: its first delivery may not be durable yet.
	if err := s.Barrier.Barrier(ctx); err != nil {
		s.Logger.Error("an event could not be made durable", zap.String("webhook", route.name), zap.Error(err))

		return 0, nil, later(http.StatusServiceUnavailable, "store", "the event could not be stored")
	}

	if len(events) == 1 {
		body.ID, body.IDs = body.IDs[0], nil
	}

	return s.await(r, body, wait)
}

// later is a refusal that asks the sender to come again.
func later(status int, reason, message string) *refusal {
	r := refuse(status, reason, "%s", message)
	r.retryAfter = retrySoon

	return r
}

// refuse answers with the refusal, counts and journals it. A token or a signature is in none of that.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, route *route, err error) {
	refused, ok := errors.AsType[*refusal](err)
	if !ok {
		refused = refuse(http.StatusInternalServerError, "internal", "the event could not be processed")

		s.Logger.Error("a delivery failed", zap.String("webhook", route.name), zap.Error(err))
	}

	s.Metrics.Refused(resources.SourceWebhook, refused.reason)

	if route.refused(refused.message) {
		peer := peerOf(r, route.proxies).String()

		s.Logger.Warn("a delivery was refused", zap.String("webhook", route.name), zap.Int("status", refused.status),
			zap.String("reason", refused.message), zap.String("peer", peer))

		// Once a minute for a route: a flood of refusals must not push what was taken in out of the journal.
		entry := store.Entry{
			Class: store.ClassRefused, Source: resources.SourceWebhook, Name: route.name, Peer: peer, Reason: refused.reason, Message: refused.message,
		}
		if err := s.Journal.Append(entry); err != nil {
			s.Logger.Warn("the journal could not be written", zap.Error(err))
		}
	}

	writeError(w, refused)
}

func writeError(w http.ResponseWriter, r *refusal) {
	if r.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(r.retryAfter))
	}

	if r.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Webhook")
	}

	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.status)

	// The client is gone if this fails; there is nobody to tell.
	_ = json.NewEncoder(w).Encode(map[string]string{"error": r.message})
}
