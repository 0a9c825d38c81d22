package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrAway means that NATS can't be asked at the moment.
var ErrAway = errors.New("NATS is not reachable")

// Reader looks into the gateway's own streams: they are the record of what was published, which nothing else keeps.
type Reader struct {
	// JetStream returns the connection, nil until there is one.
	JetStream func() jetstream.JetStream
	Names     Names
}

// readTimeout bounds one look: who asks has a terminal in front of them.
const readTimeout = 3 * time.Second

// Published is a message with a status.
type Published struct {
	Subject string `json:"subject"`
	// MessageID is uid/N, N being the status's number.
	MessageID string `json:"messageId"`
	Type      string `json:"type"`
	// Cause is what led to the status.
	Cause string `json:"cause,omitempty"`
	// Stream and Sequence are where the server keeps it, Time is when it took it.
	Stream   string    `json:"stream"`
	Sequence uint64    `json:"sequence"`
	Time     time.Time `json:"time"`
}

// Published returns the statuses of an object that were published since a moment, oldest first, at most limit of them. The
// stream keeps the newest 1,000 of an object, a week.
func (r *Reader) Published(ctx context.Context, kind, name string, since time.Time, limit int) ([]Published, error) {
	var published []Published

	err := r.read(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{r.Names.Status(kind, name)}, DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &since,
	}, r.Names.StatusStream(), limit, func(msg jetstream.Msg, at *jetstream.MsgMetadata) {
		var event struct {
			ID    string `json:"id"`
			Type  string `json:"type"`
			Cause string `json:"gatewaycause"`
		}

		if json.Unmarshal(msg.Data(), &event) != nil {
			return // not ours: whoever may publish can publish there
		}

		published = append(published, Published{
			Subject: msg.Subject(), MessageID: event.ID, Type: event.Type, Cause: event.Cause,
			Stream: at.Stream, Sequence: at.Sequence.Stream, Time: at.Timestamp.UTC(),
		})
	})

	return published, err
}

// DeadLetter is a message on PREFIX.dead.SOURCE.NAME.
type DeadLetter struct {
	// MessageID is EVENT/N, N being the number of the journal's entry.
	MessageID string
	EventID   string
	Source    string
	Name      string
	Type      string
	Subject   string
	Reason    string
	Bytes     int64
	Time      time.Time
}

// DeadLetters returns the newest dead letters of the stream, oldest first, at most limit of them.
func (r *Reader) DeadLetters(ctx context.Context, limit int) ([]DeadLetter, error) {
	kept, err := r.letters(ctx, limit)
	letters := make([]DeadLetter, len(kept))

	for i := range kept {
		letters[i] = kept[i].DeadLetter
	}

	return letters, err
}

// PurgeDead takes the dead letters out of the stream that taken chooses, and returns how many they were.
func (r *Reader) PurgeDead(ctx context.Context, taken func(DeadLetter) bool) (purged int, err error) {
	kept, err := r.letters(ctx, maxDeadLetters)
	if err != nil {
		return 0, err
	}

	ctx, cancel := context.WithTimeout(ctx, purgeTimeout)
	defer cancel()

	js, err := r.js()
	if err != nil {
		return 0, err
	}

	stream, err := js.Stream(ctx, r.Names.DeadStream())
	if err != nil {
		return 0, fmt.Errorf("error looking up the dead letters: %w", err)
	}

	for _, letter := range kept {
		if !taken(letter.DeadLetter) {
			continue
		}

		if err := stream.DeleteMsg(ctx, letter.sequence); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return purged, fmt.Errorf("error deleting a dead letter: %w", err)
		}

		purged++
	}

	return purged, nil
}

const (
	// maxDeadLetters is more than 256 MiB of the smallest letters that there are in practice.
	maxDeadLetters = 100_000
	// purgeTimeout: a deletion takes a fraction of a millisecond.
	purgeTimeout = time.Minute
)

// kept is a dead letter with its place in the stream.
type kept struct {
	DeadLetter

	sequence uint64
}

// letters reads the newest letters.
func (r *Reader) letters(ctx context.Context, limit int) (letters []kept, err error) {
	js, err := r.js()
	if err != nil {
		return nil, err
	}

	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()

	stream, err := js.Stream(limited, r.Names.DeadStream())
	if err != nil {
		return nil, fmt.Errorf("error looking up the dead letters: %w", err)
	}

	state := stream.CachedInfo().State
	first := max(state.FirstSeq, 1)

	if count := uint64(limit); state.LastSeq >= count { //nolint:gosec // limits are positive
		first = max(first, state.LastSeq-count+1)
	}

	config := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: first}

	err = r.read(ctx, config, r.Names.DeadStream(), limit, func(msg jetstream.Msg, at *jetstream.MsgMetadata) {
		var event struct {
			ID      string `json:"id"`
			Source  string `json:"gatewaysource"`
			Name    string `json:"gatewayname"`
			Type    string `json:"type"`
			Subject string `json:"subject"`
			Bytes   int64  `json:"gatewaybytes"`
		}

		if json.Unmarshal(msg.Data(), &event) != nil || event.ID == "" || event.Source == "" {
			return // not ours
		}

		letters = append(letters, kept{sequence: at.Sequence.Stream, DeadLetter: DeadLetter{
			MessageID: header(msg, "Nats-Msg-Id"), EventID: event.ID, Source: event.Source, Name: event.Name, Type: event.Type,
			Subject: event.Subject, Reason: header(msg, "Gateway-Reason"), Bytes: event.Bytes, Time: at.Timestamp.UTC(),
		}})
	})

	return letters, err
}

// header is a header's value; NATS headers are case-sensitive.
func header(msg jetstream.Msg, name string) string {
	if values := msg.Headers()[name]; len(values) > 0 {
		return values[0]
	}

	return ""
}

func (r *Reader) js() (jetstream.JetStream, error) {
	js := r.JetStream()
	if js == nil || !js.Conn().IsConnected() {
		return nil, ErrAway
	}

	return js, nil
}

// batch is how many messages are asked for at once.
const batch = 500

// read calls visit with the messages of a stream that are there, at most limit.
func (r *Reader) read(
	ctx context.Context, config jetstream.OrderedConsumerConfig, stream string, limit int, visit func(jetstream.Msg, *jetstream.MsgMetadata),
) error {
	js, err := r.js()
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()

	consumer, err := js.OrderedConsumer(ctx, stream, config)
	if err != nil {
		return fmt.Errorf("error reading the stream %s: %w", stream, err)
	}

	for left := limit; left > 0 && ctx.Err() == nil; {
		messages, err := consumer.FetchNoWait(min(left, batch))
		if err != nil {
			return fmt.Errorf("error reading the stream %s: %w", stream, err)
		}

		count := 0

		for msg := range messages.Messages() {
			at, err := msg.Metadata()
			if err != nil {
				return fmt.Errorf("error reading the stream %s: %w", stream, err)
			}

			visit(msg, at)

			if count++; at.NumPending == 0 {
				return messages.Error()
			}
		}

		if err := messages.Error(); err != nil || count == 0 {
			return err
		}

		left -= count
	}

	return nil
}
