package broker

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Names are the subjects, streams and buckets of one prefix.
type Names struct{ Prefix string }

// Status is the subject of an object's status: PREFIX.vm.NAME.status.
func (n Names) Status(kind, name string) string {
	return n.Prefix + "." + strings.ToLower(kind) + "." + EncodeToken(name) + ".status"
}

// Event is the subject of an event that was taken in.
func (n Names) Event(source, name string) string {
	return n.Prefix + ".event." + EncodeToken(source) + "." + EncodeToken(name)
}

// Dead is the subject of an event that could not be processed.
func (n Names) Dead(source, name string) string {
	return n.Prefix + ".dead." + EncodeToken(source) + "." + EncodeToken(name)
}

// Request is the subject of a request.
func (n Names) Request(verb string) string { return n.Prefix + ".request." + verb }

// Owns reports whether a subject or pattern can match one of the gateway's own: documents may neither publish to nor
// subscribe from those.
func (n Names) Owns(subject string) bool {
	first, _, _ := strings.Cut(subject, ".")

	return first == n.Prefix || first == "*" || first == ">"
}

// ValidatePublish checks a subject that a document or a payload asks to publish to: beside what ValidateSubject asks for, it
// is neither the gateway's own nor the server's ($JS.API.STREAM.DELETE.… would be a message too) nor a reply's.
func (n Names) ValidatePublish(subject string) error {
	if err := ValidateSubject(subject, false); err != nil {
		return err
	}

	switch {
	case n.Owns(subject):
		return fmt.Errorf("the subject %q is the gateway's own", subject)
	case strings.HasPrefix(subject, "$"), strings.HasPrefix(subject, "_INBOX."):
		return fmt.Errorf("the subject %q belongs to the NATS server", subject)
	}

	return nil
}

// StatusStream, EventStream and DeadStream are the names of the streams.
func (n Names) StatusStream() string { return n.stream("STATUS") }

// EventStream is the stream of the events that were taken in.
func (n Names) EventStream() string { return n.stream("EVENTS") }

// DeadStream is the stream of what could not be processed.
func (n Names) DeadStream() string { return n.stream("DEAD") }

// StatusBucket is the KV bucket with the last status of each object of a kind.
func (n Names) StatusBucket(kind string) string {
	return n.Prefix + "-" + strings.ToLower(kind) + "-status"
}

// ClaimBucket is the KV bucket with the claim on the prefix.
func (n Names) ClaimBucket() string { return n.Prefix + "-claim" }

func (n Names) stream(what string) string {
	return strings.ToUpper(strings.ReplaceAll(n.Prefix, "-", "_")) + "_" + what
}

// HeaderHops counts how often a message went through a gateway, so that two of them can't play ball for ever.
const HeaderHops = "Gateway-Hops"

// MaxHops is where a message goes no further.
const MaxHops = 8

// dedupeWindow is how long JetStream remembers message ids: longer than any retry of one message takes.
const dedupeWindow = 2 * time.Minute

// Streams are the configurations of the streams and buckets, with their limits.
//
//   - status: a week, 1 GiB, the newest 1,000 of each object: at 2 KiB a status, 500,000 changes;
//   - events: a day, 1 GiB: attributes are under 2 KiB, so 500,000 events;
//   - dead letters: 30 days, 256 MiB: what people have to look at by hand;
//   - buckets: the last status alone, fed from the status stream by the server itself, so that it is never written twice.
func (n Names) Streams() []jetstream.StreamConfig {
	const mib = 1 << 20

	configs := []jetstream.StreamConfig{
		{
			Name: n.StatusStream(), Subjects: []string{n.Prefix + ".vm.*.status", n.Prefix + ".host.*.status"},
			MaxAge: 7 * 24 * time.Hour, MaxBytes: 1024 * mib, MaxMsgsPerSubject: 1000,
		},
		{
			Name: n.EventStream(), Subjects: []string{n.Prefix + ".event.>"},
			MaxAge: 24 * time.Hour, MaxBytes: 1024 * mib,
		},
		{
			Name: n.DeadStream(), Subjects: []string{n.Prefix + ".dead.>"},
			MaxAge: 30 * 24 * time.Hour, MaxBytes: 256 * mib,
		},
	}

	for _, kind := range []string{"vm", "host"} {
		configs = append(configs, n.bucket(kind, 256*mib))
	}

	for i := range configs {
		configs[i].Storage = jetstream.FileStorage
		configs[i].Duplicates = dedupeWindow
		configs[i].Description = "gateway " + n.Prefix
	}

	return configs
}

// bucket is the configuration of a KV bucket (ADR-8 of NATS) that sources its values from the status stream. A deleted
// object's last message carries the header KV-Operation: PURGE, which the bucket takes as the deletion of the key.
func (n Names) bucket(kind string, maxBytes int64) jetstream.StreamConfig {
	bucket := n.StatusBucket(kind)

	return jetstream.StreamConfig{
		Name: "KV_" + bucket, Subjects: []string{"$KV." + bucket + ".>"},
		MaxMsgsPerSubject: 1, MaxBytes: maxBytes,
		AllowRollup: true, DenyDelete: true, AllowDirect: true, Discard: jetstream.DiscardNew,
		Sources: []*jetstream.StreamSource{{
			Name: n.StatusStream(),
			SubjectTransforms: []jetstream.SubjectTransformConfig{{
				Source:      n.Prefix + "." + kind + ".*.status",
				Destination: "$KV." + bucket + ".{{wildcard(1)}}",
			}},
		}},
	}
}

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))

	return hex.EncodeToString(sum[:8])
}
