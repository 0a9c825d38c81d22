package resources

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"
)

// WebhookType is the COSI type of Webhook.
const WebhookType = "Webhooks" + typeSuffix

// Webhook is a declared HTTP route.
type Webhook = typed.Resource[WebhookSpec, WebhookExtension]

// WebhookSpec is one HTTP route: POST /hooks/NAME.
type WebhookSpec struct {
	Auth           WebhookAuth   `json:"auth" protobuf:"1" doc:"exactly one way, or none: true"`
	ReplayWindow   Duration      `json:"replayWindow" protobuf:"2" default:"5m" doc:"for ways with a timestamp"`
	Allow          []string      `json:"allow,omitempty" protobuf:"3" doc:"prefixes of peers; empty: all"`
	TrustedProxies []string      `json:"trustedProxies,omitempty" protobuf:"4" doc:"prefixes of peers whose X-Forwarded-For counts"`
	DeliveryID     string        `json:"deliveryId,omitempty" protobuf:"5" doc:"header with the id of a delivery; default: what the way sends, CloudEvents' id, Idempotency-Key"`
	Content        string        `json:"content" protobuf:"6" default:"json" enum:"json,form,cloudevents,any"`
	Gzip           bool          `json:"gzip,omitempty" protobuf:"7" doc:"accept Content-Encoding: gzip; signatures are over the bytes as sent"`
	Limits         WebhookLimits `json:"limits,omitzero" protobuf:"8"`
	Publish        string        `json:"publish" protobuf:"9" default:"attributes" enum:"attributes,full" doc:"full: events on NATS carry the payload"`
	Target         *Target       `json:"target,omitempty" protobuf:"10"`
	Apply          *ApplyRule    `json:"apply,omitempty" protobuf:"11"`
}

// WebhookAuth is the way a sender proves who it is: exactly one is set.
type WebhookAuth struct {
	GitHub   *SecretAuth `json:"github,omitempty" protobuf:"1" doc:"X-Hub-Signature-256"`
	GitLab   *SecretAuth `json:"gitlab,omitempty" protobuf:"2" doc:"X-Gitlab-Token"`
	Gitea    *SecretAuth `json:"gitea,omitempty" protobuf:"3" doc:"X-Gitea-Signature"`
	Standard *SecretAuth `json:"standard,omitempty" protobuf:"4" doc:"Standard Webhooks: webhook-signature"`
	Bearer   *TokenAuth  `json:"bearer,omitempty" protobuf:"5"`
	Basic    *BasicAuth  `json:"basic,omitempty" protobuf:"6"`
	MTLS     *MTLSAuth   `json:"mtls,omitempty" protobuf:"7"`
	HMAC     *HMACAuth   `json:"hmac,omitempty" protobuf:"8"`
	None     bool        `json:"none,omitempty" protobuf:"9" doc:"true: everybody may send; warned about"`
}

// SecretAuth names the files that hold a shared secret each; any of them is accepted, so that secrets can be rotated.
type SecretAuth struct {
	SecretFiles []string `json:"secretFiles" protobuf:"1" doc:"absolute paths, within policy.secretPaths"`
}

// TokenAuth names the files that hold a bearer token each.
type TokenAuth struct {
	TokenFiles []string `json:"tokenFiles" protobuf:"1" doc:"absolute paths, within policy.secretPaths"`
}

// BasicAuth is HTTP basic authentication (RFC 7617).
type BasicAuth struct {
	Username      string   `json:"username" protobuf:"1"`
	PasswordFiles []string `json:"passwordFiles" protobuf:"2" doc:"absolute paths, within policy.secretPaths"`
}

// MTLSAuth accepts clients whose certificate http.tls.clientCA signed and that has one of these names.
type MTLSAuth struct {
	Subjects []string `json:"subjects" protobuf:"1" doc:"common names or DNS names"`
}

// HMACAuth is a signature in the way of a sender that is not listed by name.
type HMACAuth struct {
	Header          string   `json:"header" protobuf:"1"`
	Algorithm       string   `json:"algorithm" protobuf:"2" default:"sha256" enum:"sha1,sha256,sha512"`
	Encoding        string   `json:"encoding" protobuf:"3" default:"hex" enum:"hex,base64"`
	Prefix          string   `json:"prefix,omitempty" protobuf:"4" doc:"before each signature, as sha256= or v1="`
	TimestampHeader string   `json:"timestampHeader,omitempty" protobuf:"5" doc:"header with the Unix time that is signed; equal to header: the t= or ts= part of it, as Stripe and Paddle send"`
	SecretFiles     []string `json:"secretFiles" protobuf:"6" doc:"absolute paths, within policy.secretPaths"`
	SignedText      string   `json:"signedText,omitempty" protobuf:"7" doc:"what is signed, of {timestamp}, {body} and {header.NAME}; default {body}, with timestampHeader {timestamp}.{body}"`
}

// WebhookLimits bound what one route may cost.
type WebhookLimits struct {
	Body        Size     `json:"body" protobuf:"1" default:"1MiB" doc:"1B to 64MiB, after decompression"`
	Rate        Rate     `json:"rate" protobuf:"2" default:"100/s"`
	Concurrency int      `json:"concurrency" protobuf:"3" default:"32" doc:"1 to 1024"`
	Timeout     Duration `json:"timeout" protobuf:"4" default:"10s" doc:"to read the body; 1s to 5m"`
	Overload    int      `json:"overload" protobuf:"5" default:"429" doc:"the status above rate or concurrency: 429 or 503"`
}

// ApplyRule lets a sender declare objects. Kinds is required: nothing is allowed by leaving it out.
type ApplyRule struct {
	Path   string   `json:"path" protobuf:"1" doc:"dotted path into the data; empty: the whole body is documents"`
	Kinds  []string `json:"kinds" protobuf:"2"`
	Names  string   `json:"names" protobuf:"3" default:"*" doc:"pattern of the names that may be declared, as ci-*"`
	Delete bool     `json:"delete,omitempty" protobuf:"4" doc:"true: a document with metadata.annotations.delete: \"true\" takes its object away"`
}

// Clone returns a copy that shares nothing.
func (a *ApplyRule) Clone() *ApplyRule {
	if a == nil {
		return nil
	}

	c := *a
	c.Kinds = cloneSlice(a.Kinds)

	return &c
}

// DeepCopy implements typed.DeepCopyable.
func (s WebhookSpec) DeepCopy() WebhookSpec {
	secret := func(a *SecretAuth) *SecretAuth {
		if a = clonePointer(a); a != nil {
			a.SecretFiles = cloneSlice(a.SecretFiles)
		}

		return a
	}

	s.Auth.GitHub, s.Auth.GitLab = secret(s.Auth.GitHub), secret(s.Auth.GitLab)
	s.Auth.Gitea, s.Auth.Standard = secret(s.Auth.Gitea), secret(s.Auth.Standard)

	if s.Auth.Bearer = clonePointer(s.Auth.Bearer); s.Auth.Bearer != nil {
		s.Auth.Bearer.TokenFiles = cloneSlice(s.Auth.Bearer.TokenFiles)
	}

	if s.Auth.Basic = clonePointer(s.Auth.Basic); s.Auth.Basic != nil {
		s.Auth.Basic.PasswordFiles = cloneSlice(s.Auth.Basic.PasswordFiles)
	}

	if s.Auth.MTLS = clonePointer(s.Auth.MTLS); s.Auth.MTLS != nil {
		s.Auth.MTLS.Subjects = cloneSlice(s.Auth.MTLS.Subjects)
	}

	if s.Auth.HMAC = clonePointer(s.Auth.HMAC); s.Auth.HMAC != nil {
		s.Auth.HMAC.SecretFiles = cloneSlice(s.Auth.HMAC.SecretFiles)
	}

	s.Allow, s.TrustedProxies = cloneSlice(s.Allow), cloneSlice(s.TrustedProxies)
	s.Target, s.Apply = s.Target.Clone(), s.Apply.Clone()

	return s
}

// WebhookExtension supplies the definition of Webhook.
type WebhookExtension struct{}

// ResourceDefinition implements typed.Extension.
func (WebhookExtension) ResourceDefinition() meta.ResourceDefinitionSpec {
	return definition(WebhookType, NamespaceBridge, []string{"webhook", "webhooks", "hook"},
		column{Name: "Content", JSONPath: "{.content}"})
}

// NewWebhook returns an empty Webhook with every default set.
func NewWebhook(id string) *Webhook { return newResource[WebhookSpec, WebhookExtension](id) }

var _ = register[WebhookSpec, WebhookExtension]("Webhook", "Webhooks", Declared, "WebhookStatus")
