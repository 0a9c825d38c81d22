package actions

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"gateway/broker"
	"gateway/resources"
	"gateway/sinks"
	"gateway/store"
)

// Publisher sends one message and returns when it is kept, or, where no stream listens on the subject, sent.
type Publisher interface {
	Publish(ctx context.Context, msg *nats.Msg) error
}

// Options configure the sink.
type Options struct {
	State     state.State
	Barrier   store.Barrier
	Journal   store.Journal
	Publisher Publisher
	Names     broker.Names
	Logger    *zap.Logger
	Metrics   *sinks.SinkMetrics
}

const (
	sendTimeout = 10 * time.Second
	again       = 2 * time.Second
)

// Sink publishes what triggers ask for.
type Sink struct{ Options }

// New returns a sink; Run does the work.
func New(o Options) *Sink { return &Sink{Options: o} }

// Run publishes until ctx ends. What failed is tried again every two seconds, in order of the ids; a watch that was overrun
// is answered by listing again, as at the start.
func (s *Sink) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := s.watch(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Warn("the actions sink lists again", zap.Error(err))
		}

		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}

	return nil
}

// watch publishes actions until one fails or the watch does.
func (s *Sink) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	events := make(chan state.Event)
	kind := resources.KindOf(resources.NewAction("").Metadata())

	if err := s.State.WatchKind(ctx, kind.List(), events, state.WithBootstrapContents(true)); err != nil {
		return fmt.Errorf("error watching actions: %w", err)
	}

	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event := <-events:
			if event.Type == state.Errored {
				return fmt.Errorf("the watch failed: %w", event.Error)
			}

			action, ok := event.Resource.(*resources.Action)
			if !ok || event.Type == state.Destroyed || !action.Metadata().Finalizers().Has(resources.FinalizerPublish) {
				continue
			}

			if err := s.handle(ctx, action); err != nil {
				s.Metrics.Failed.Inc()

				return err
			}
		}
	}
}

// handle publishes one action's message and takes the finalizer off. A subject that can't be sent to is final.
func (s *Sink) handle(ctx context.Context, action *resources.Action) error {
	spec, id := action.TypedSpec(), action.Metadata().ID()
	entry := store.Entry{Class: store.ClassPublished, Source: "trigger", Name: spec.By, EventID: spec.Cause, Object: spec.Subject}

	err := broker.ValidateSubject(spec.Subject, false)
	if err == nil && s.Names.Owns(spec.Subject) {
		err = fmt.Errorf("the subject %q is the gateway's own", spec.Subject)
	}

	if err != nil {
		entry.Class, entry.Reason, entry.Message = store.ClassDead, resources.ReasonInvalid, err.Error()
		s.Logger.Warn("a trigger's message can't be sent", zap.String("by", spec.By), zap.Error(err))
	} else if err := s.send(ctx, id, spec); err != nil {
		return err
	} else {
		s.Metrics.Published.Inc()
	}

	if err := s.Journal.Append(entry); err != nil {
		return fmt.Errorf("error writing the journal: %w", err)
	}

	err = s.State.RemoveFinalizer(ctx, action.Metadata(), resources.FinalizerPublish)
	if err != nil && !state.IsNotFoundError(err) {
		return fmt.Errorf("error removing the finalizer of action %s: %w", id, err)
	}

	return nil
}

func (s *Sink) send(ctx context.Context, id resource.ID, spec *resources.ActionSpec) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()

	if err := s.Barrier.Barrier(ctx); err != nil {
		return fmt.Errorf("error waiting for the store: %w", err)
	}

	err := s.Publisher.Publish(ctx, &nats.Msg{Subject: spec.Subject, Data: spec.Body, Header: nats.Header{
		"Nats-Msg-Id":     {id},
		"content-type":    {"application/json"},
		broker.HeaderHops: {strconv.Itoa(spec.Hops + 1)},
	}})
	if err != nil {
		return fmt.Errorf("error publishing to %s: %w", spec.Subject, err)
	}

	return nil
}

// NATS is a Publisher on a real connection.
type NATS struct {
	Connection *nats.Conn
	JetStream  jetstream.JetStream
}

// Publish implements Publisher. Where a stream has the subject it waits for the stream's acknowledgement, else until the
// server has taken the message. The stream is looked up first: a JetStream publish to a subject without one would reach
// core subscribers and then wait for an answer that nobody gives.
func (n NATS) Publish(ctx context.Context, msg *nats.Msg) error {
	_, err := n.JetStream.StreamNameBySubject(ctx, msg.Subject)

	switch {
	case err == nil:
		_, err = n.JetStream.PublishMsg(ctx, msg)

		return err
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("error looking up the stream: %w", err)
	}

	if err := n.Connection.PublishMsg(msg); err != nil {
		return err
	}

	return n.Connection.FlushWithContext(ctx)
}
