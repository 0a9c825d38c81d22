package resources

import (
	"encoding/json"
	"fmt"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// SubscriptionType is the COSI type of Subscription.
const SubscriptionType = "Subscriptions" + typeSuffix

// Subscription is a declared NATS subscription.
type Subscription = typed.Resource[SubscriptionSpec, SubscriptionExtension]

// SubscriptionSpec is a NATS subject that is listened to. With Stream it is a durable JetStream consumer, without it core
// NATS, which may lose messages while nobody listens.
type SubscriptionSpec struct {
	Subject    string     `json:"subject" protobuf:"1"`
	Stream     string     `json:"stream,omitempty" protobuf:"2"`
	Queue      string     `json:"queue,omitempty" protobuf:"3" doc:"core NATS only: share the messages with others of this group"`
	Deliver    Deliver    `json:"deliver,omitzero" protobuf:"4" doc:"new (default), all, last or {since: 1h}"`
	MaxDeliver int        `json:"maxDeliver" protobuf:"5" default:"5" doc:"attempts before a message is a dead letter; 1 to 100"`
	AckWait    Duration   `json:"ackWait" protobuf:"6" default:"30s" doc:"1s to 1h"`
	MaxBytes   Size       `json:"maxBytes" protobuf:"7" default:"1MiB" doc:"of one message; larger ones are dead letters"`
	Content    string     `json:"content" protobuf:"8" default:"any" enum:"json,cloudevents,any"`
	Publish    string     `json:"publish" protobuf:"9" default:"attributes" enum:"attributes,full"`
	Target     *Target    `json:"target,omitempty" protobuf:"10"`
	Apply      *ApplyRule `json:"apply,omitempty" protobuf:"11"`
}

// Deliver is where a durable consumer starts.
type Deliver struct {
	Policy string   `json:"policy" protobuf:"1" default:"new" enum:"new,all,last,since"`
	Since  Duration `json:"since,omitempty" protobuf:"2"`
}

// UnmarshalText reads the short form: new, all or last.
func (d *Deliver) UnmarshalText(text []byte) error {
	switch policy := string(text); policy {
	case "new", "all", "last":
		d.Policy = policy

		return nil
	}

	return fmt.Errorf("%q is not one of new, all, last and {since: DURATION}", text)
}

// MarshalJSON writes the form that documents have.
func (d Deliver) MarshalJSON() ([]byte, error) {
	if d.Policy == "since" {
		return json.Marshal(map[string]Duration{"since": d.Since})
	}

	return json.Marshal(d.Policy)
}

// UnmarshalJSON reads either form.
func (d *Deliver) UnmarshalJSON(text []byte) error {
	var long struct {
		Since Duration `json:"since"`
	}

	if json.Unmarshal(text, &long) == nil && long.Since > 0 {
		d.Policy, d.Since = "since", long.Since

		return nil
	}

	var short string
	if err := json.Unmarshal(text, &short); err != nil {
		return err
	}

	return d.UnmarshalText([]byte(short))
}

// DeepCopy implements typed.DeepCopyable.
func (s SubscriptionSpec) DeepCopy() SubscriptionSpec {
	s.Target, s.Apply = s.Target.Clone(), s.Apply.Clone()

	return s
}

// SubscriptionExtension supplies the definition of Subscription.
type SubscriptionExtension struct{}

// ResourceDefinition implements typed.Extension.
func (SubscriptionExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(SubscriptionType, NamespaceBridge, []string{"subscription", "subscriptions", "sub"},
		column{Name: "Subject", JSONPath: "{.subject}"},
		column{Name: "Stream", JSONPath: "{.stream}"})
}

// NewSubscription returns an empty Subscription with every default set.
func NewSubscription(id string) *Subscription {
	return newResource[SubscriptionSpec, SubscriptionExtension](id)
}

var _ = register[SubscriptionSpec, SubscriptionExtension]("Subscription", "Subscriptions", Declared, "SubscriptionStatus")
