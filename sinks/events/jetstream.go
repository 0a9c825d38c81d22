package events

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// JetStream is a Stream on a real server.
type JetStream struct{ jetstream.JetStream }

// LastHeader implements Stream.
func (j JetStream) LastHeader(ctx context.Context, stream, filter string) (nats.Header, error) {
	s, err := j.Stream(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("error looking up the stream: %w", err)
	}

	msg, err := s.GetLastMsgForSubject(ctx, filter)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	return msg.Header, nil
}
