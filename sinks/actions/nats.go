package actions

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"gateway/broker"
	"gateway/resources"
)

// message makes the message of an action. The action's id is the message's, so that a stream takes it once.
func message(id resource.ID, spec *resources.ActionSpec) *nats.Msg {
	return &nats.Msg{Subject: spec.Subject, Data: spec.Body, Header: nats.Header{
		"Nats-Msg-Id":     {id},
		"content-type":    {"application/json"},
		broker.HeaderHops: {strconv.Itoa(spec.Hops + 1)},
	}}
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

// streamFull is what a stream answers that is full and discards what is new (JSStreamStoreFailedF of the server).
const streamFull jetstream.ErrorCode = 10077

// isRefusal reports whether an error is the server's answer to the message, and not that the server is away.
func isRefusal(err error) bool {
	if errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) {
		return true
	}

	answer, ok := errors.AsType[*jetstream.APIError](err)

	return ok && (answer.Code != http.StatusServiceUnavailable || answer.ErrorCode == streamFull)
}
