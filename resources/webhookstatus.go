package resources

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// WebhookStatusType is the COSI type of WebhookStatus.
const WebhookStatusType = "WebhookStatuses" + typeSuffix

// WebhookStatus is the observed half of a Webhook.
type WebhookStatus = typed.Resource[WebhookStatusSpec, WebhookStatusExtension]

// WebhookStatusSpec is what a webhook did, written by its source at most once a second.
type WebhookStatusSpec struct {
	Counts           SourceCounts `json:"counts" protobuf:"1"`
	Conditions       []Condition  `json:"conditions,omitempty" protobuf:"2"`
	ObservedRevision int64        `json:"observedRevision" protobuf:"3"`
}

// DeepCopy implements typed.DeepCopyable.
func (s WebhookStatusSpec) DeepCopy() WebhookStatusSpec {
	s.Conditions = cloneSlice(s.Conditions)

	return s
}

// WebhookStatusExtension supplies the definition of WebhookStatus.
type WebhookStatusExtension struct{}

// ResourceDefinition implements typed.Extension.
func (WebhookStatusExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(WebhookStatusType, NamespaceBridge, []string{"webhookstatus", "webhookstatuses"})
}

// NewWebhookStatus returns an empty WebhookStatus with every default set.
func NewWebhookStatus(id string) *WebhookStatus {
	return newResource[WebhookStatusSpec, WebhookStatusExtension](id)
}

var _ = register[WebhookStatusSpec, WebhookStatusExtension]("WebhookStatus", "WebhookStatuses", Observed, "")
