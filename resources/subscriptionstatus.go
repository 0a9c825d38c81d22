package resources

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// SubscriptionStatusType is the COSI type of SubscriptionStatus.
const SubscriptionStatusType = "SubscriptionStatuses" + typeSuffix

// SubscriptionStatus is the observed half of a Subscription.
type SubscriptionStatus = typed.Resource[SubscriptionStatusSpec, SubscriptionStatusExtension]

// SubscriptionStatusSpec is what a subscription did, written by its source at most once a second.
type SubscriptionStatusSpec struct {
	Counts           SourceCounts `json:"counts" protobuf:"1"`
	Conditions       []Condition  `json:"conditions,omitempty" protobuf:"2"`
	ObservedRevision int64        `json:"observedRevision" protobuf:"3"`
	// Streams are those that may have a consumer of this subscription, which goes when it listens there no longer.
	Streams []string `json:"streams,omitempty" protobuf:"4"`
}

// DeepCopy implements typed.DeepCopyable.
func (s SubscriptionStatusSpec) DeepCopy() SubscriptionStatusSpec {
	s.Conditions, s.Streams = cloneSlice(s.Conditions), cloneSlice(s.Streams)

	return s
}

// SubscriptionStatusExtension supplies the definition of SubscriptionStatus.
type SubscriptionStatusExtension struct{}

// ResourceDefinition implements typed.Extension.
func (SubscriptionStatusExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(SubscriptionStatusType, NamespaceBridge, []string{"subscriptionstatus", "subscriptionstatuses"})
}

// NewSubscriptionStatus returns an empty SubscriptionStatus with every default set.
func NewSubscriptionStatus(id string) *SubscriptionStatus {
	return newResource[SubscriptionStatusSpec, SubscriptionStatusExtension](id)
}

var _ = register[SubscriptionStatusSpec, SubscriptionStatusExtension]("SubscriptionStatus", "SubscriptionStatuses", Observed, "")
