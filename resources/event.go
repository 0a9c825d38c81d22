package resources

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// Names of the sources, as users see them in `gateway events` and in subjects.
const (
	SourceFile         = "file"
	SourceSchedule     = "schedule"
	SourceWebhook      = "webhook"
	SourceSubscription = "subscription"
	SourceDomain       = "domain"
)

// EventAttributes are what every event carries: the attributes of CloudEvents 1.0 and what the gateway adds.
type EventAttributes struct {
	// ID is unique in the gateway, and the same for the same delivery.
	ID string `json:"id" protobuf:"1"`
	// Source is file, schedule, webhook, subscription or domain; Name is the declaration or subject that it came through.
	Source string `json:"source" protobuf:"2"`
	Name   string `json:"name" protobuf:"3"`
	// CESource, Type, Subject and Time are CloudEvents' own; of the sender where it sent a CloudEvent.
	CESource        string    `json:"cesource,omitempty" protobuf:"4"`
	Type            string    `json:"type" protobuf:"5"`
	Subject         string    `json:"subject,omitempty" protobuf:"6"`
	Time            time.Time `json:"time" protobuf:"7"`
	DataContentType string    `json:"datacontenttype,omitempty" protobuf:"8"`
	// DeliveryID is what the sender calls this delivery.
	DeliveryID string `json:"deliveryId,omitempty" protobuf:"9"`
	// Received is when the gateway took it in; Sequence rises with each event of a subject, and with each message of a sender:
	// the number in its stream, or microseconds since 1970 as of when it was taken in. A replay has that of its original.
	Received time.Time `json:"received" protobuf:"10"`
	Sequence uint64    `json:"sequence" protobuf:"11"`
	// Peer is the address of the sender, where there is one.
	Peer string `json:"peer,omitempty" protobuf:"12"`
	// Digest and Bytes are of the data: SHA-256 in hex.
	Digest string `json:"digest,omitempty" protobuf:"13"`
	Bytes  int64  `json:"bytes" protobuf:"14"`
	// Hops counts how often the event went through a gateway.
	Hops int `json:"hops,omitempty" protobuf:"15"`
	// Target names what is to look again because of this event.
	Target *Target `json:"target,omitempty" protobuf:"16"`
	// Headers that the sender sent, lower case, credentials left out.
	Headers map[string]string `json:"headers,omitempty" protobuf:"17"`
	// Publish is attributes or full, from the declaration.
	Publish string `json:"publish,omitempty" protobuf:"18"`
}

// Clone returns a copy that shares nothing.
func (a EventAttributes) Clone() EventAttributes {
	a.Target = a.Target.Clone()
	a.Headers = cloneMap(a.Headers)

	return a
}

// Digest returns the SHA-256 of data in hex, as events carry it.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)

	return hex.EncodeToString(sum[:])
}

// idBytes of a digest make an id: 128 bits, so that no two of any number of events collide.
const idBytes = 16

// EventID makes the id of an event from what identifies its delivery: the same parts give the same id.
func EventID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))

	return hex.EncodeToString(sum[:idBytes])
}

// FileID makes the id of a file's resources from its absolute path.
func FileID(path string) string { return EventID(SourceFile, path) }
