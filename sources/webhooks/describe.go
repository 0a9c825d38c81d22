package webhooks

import (
	"net/http"
	"strings"

	"gateway/resources"
)

// Limits of the headers that are kept with an event.
const (
	maxHeaders     = 64
	maxHeaderBytes = 8 << 10
)

// credentials are headers that no event carries, whatever the route's way.
var credentials = map[string]bool{
	"authorization": true, "proxy-authorization": true, "cookie": true, "set-cookie": true, "x-hub-signature": true,
	"x-hub-signature-256": true, "x-gitlab-token": true, "x-gitea-signature": true, "x-gogs-signature": true,
	"webhook-signature": true, "stripe-signature": true, "x-api-key": true, "x-auth-token": true,
}

// keptHeaders returns the headers in lower case, without credentials, bounded.
func keptHeaders(h http.Header, secret []string) map[string]string {
	kept, size := map[string]string{}, 0

	for _, name := range resources.SortedKeys(h) {
		lower, value := strings.ToLower(name), strings.Join(h[name], ", ")

		hidden := credentials[lower]
		for _, s := range secret {
			hidden = hidden || strings.EqualFold(s, name)
		}

		size += len(lower) + len(value)
		if hidden || len(kept) == maxHeaders || size > maxHeaderBytes {
			continue
		}

		kept[lower] = value
	}

	return kept
}

// describe sets the type, the subject, the source and the delivery id of an event by what its sender sends.
func describe(spec *resources.WebhookSpec, h http.Header, data []byte, a *resources.EventAttributes) {
	if !describeSender(h, data, a) {
		// Without the header that says what happened, the route's way still says whose id it is.
		switch {
		case spec.Auth.GitHub != nil:
			a.DeliveryID = h.Get("X-GitHub-Delivery")
		case spec.Auth.Gitea != nil:
			a.DeliveryID = h.Get("X-Gitea-Delivery")
		case spec.Auth.GitLab != nil:
			if a.DeliveryID = h.Get("Idempotency-Key"); a.DeliveryID == "" {
				a.DeliveryID = h.Get("X-Gitlab-Event-UUID")
			}
		case spec.Auth.Standard != nil:
			a.DeliveryID = h.Get("Webhook-Id")
		}
	}

	if a.Type == "" {
		a.Type = "gateway.webhook.v1"
	}

	if a.DeliveryID == "" {
		a.DeliveryID = h.Get("Idempotency-Key")
	}

	if spec.DeliveryID != "" {
		a.DeliveryID = h.Get(spec.DeliveryID)
	}
}

// isPing reports whether this is GitHub's test delivery, which is answered and leads to nothing.
func isPing(h http.Header) bool { return h.Get("X-GitHub-Event") == "ping" }
