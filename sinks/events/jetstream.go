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

// foreign bounds how many messages of others at the end of a stream are passed over: anybody who may can publish there.
const foreign = 100

// LastHeader implements Stream.
func (j JetStream) LastHeader(ctx context.Context, stream, filter string) (nats.Header, error) {
	s, err := j.Stream(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("error looking up the stream: %w", err)
	}

	msg, err := s.GetLastMsgForSubject(ctx, filter)

	for range foreign {
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && msg.Header.Get(headerJournal) != "" || msg != nil && msg.Sequence <= 1 {
			break
		}

		if err != nil {
			return nil, err
		}

		previous := msg.Sequence - 1

		if msg, err = s.GetMsg(ctx, previous); errors.Is(err, jetstream.ErrMsgNotFound) { // deleted, or the first
			msg, err = &jetstream.RawStreamMsg{Sequence: previous}, nil
		}
	}

	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	return msg.Header, nil
}
