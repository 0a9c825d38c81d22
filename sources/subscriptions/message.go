package subscriptions

import (
	"fmt"
	"mime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"

	"gateway/broker"
	"gateway/resources"
	"gateway/sources/payload"
)

const (
	headerMessageID = "Nats-Msg-Id"
	// maxHeaders and maxHeaderBytes bound the headers that are kept with an event.
	maxHeaders     = 64
	maxHeaderBytes = 8 << 10
	// maxContentType is how long a content type may be, and still be one.
	maxContentType = 255
	// messageType is the type of an event whose sender names none.
	messageType = "gateway.message.v1"
)

// credentials are headers that no event carries.
var credentials = map[string]bool{
	"authorization": true, "proxy-authorization": true, "cookie": true, "set-cookie": true, "x-api-key": true, "x-auth-token": true,
	"x-hub-signature": true, "x-hub-signature-256": true, "x-gitlab-token": true, "webhook-signature": true,
}

// clean makes text of what a sender sent: NATS takes any bytes in subjects and headers, resources only UTF-8.
func clean(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// shorten cuts text to one line of at most n bytes.
func shorten(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}

		return r
	}, text)

	return strings.ToValidUTF8(text[:min(len(text), n)], "")
}

// header returns a header's value, whatever its case: NATS headers are case-sensitive, senders are not.
func header(h nats.Header, name string) string { return clean(rawHeader(h, name)) }

func rawHeader(h nats.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}

	for k, v := range h {
		if len(v) > 0 && strings.EqualFold(k, name) {
			return v[0]
		}
	}

	return ""
}

// events makes the events of a message: one, or as many as a CloudEvents batch has. An error is why the message can never
// be taken.
func (w *worker) events(subject string, h nats.Header, data []byte, delivery string) ([]*resources.MessageEvent, error) {
	if int64(len(data)) > int64(w.spec.MaxBytes) {
		return nil, fmt.Errorf("the message has %d bytes, at most %s are taken", len(data), w.spec.MaxBytes)
	}

	now := time.Now().UTC()
	base := resources.EventAttributes{
		Source: resources.SourceSubscription, Name: w.name, Type: messageType, Subject: clean(subject), Time: now, Received: now,
		DeliveryID: delivery, Target: w.spec.Target, Publish: w.spec.Publish, Headers: kept(h),
	}

	if w.spec.Apply != nil {
		base.Publish = "attributes" // what is applied can hold secrets
	}

	var err error

	if base.Hops, err = hopsOf(header(h, broker.HeaderHops)); err != nil {
		return nil, err
	}

	mediaType, _, err := mime.ParseMediaType(header(h, "Content-Type"))
	if err != nil || len(header(h, "Content-Type")) > maxContentType {
		mediaType = ""
	} else {
		base.DataContentType = header(h, "Content-Type")
	}

	switch {
	case w.spec.Content == "cloudevents" || w.spec.Content == "any" && isCloudEvent(mediaType, h):
		return w.cloudEvents(mediaType, h, data, base)
	case w.spec.Content == "json" || payload.IsJSON(mediaType):
		if err := payload.CheckJSON(data); err != nil {
			return nil, fmt.Errorf("the message is not acceptable JSON: %w", err)
		}

		if base.DataContentType == "" {
			base.DataContentType = "application/json"
		}
	}

	return []*resources.MessageEvent{w.event(subject, base, data)}, nil
}

// hopsOf reads how often a message went through a gateway.
func hopsOf(text string) (int, error) {
	if text == "" {
		return 0, nil
	}

	hops, err := strconv.Atoi(text)
	if err != nil || hops < 0 || hops >= broker.MaxHops {
		return 0, fmt.Errorf("the message went through gateways %.10q times, at most %d are allowed: a loop", text, broker.MaxHops-1)
	}

	return hops, nil
}

func isCloudEvent(mediaType string, h nats.Header) bool {
	return strings.HasPrefix(mediaType, "application/cloudevents") || header(h, "ce-specversion") != ""
}

func (w *worker) cloudEvents(mediaType string, h nats.Header, data []byte, base resources.EventAttributes) ([]*resources.MessageEvent, error) {
	if mediaType == "" && header(h, "ce-specversion") == "" {
		mediaType = "application/cloudevents+json" // a route that takes nothing else, from a sender without headers
	}

	decoded, err := payload.DecodeCloudEvents(mediaType, base.DataContentType, h, data)
	if err != nil {
		return nil, err
	}

	events := make([]*resources.MessageEvent, 0, len(decoded))

	for i, e := range decoded {
		a := base.Clone()
		e.Into(&a)

		// A gateway's own events say so in their attributes too, where a bridge has dropped the header.
		hops, err := hopsOf(e.Attributes["gatewayhops"])
		if err != nil {
			return nil, err
		}

		a.Hops = max(a.Hops, hops)
		// The stream's delivery is what is taken once, not the sender's id, which may come on other subjects too.
		a.DeliveryID = base.DeliveryID + "/" + strconv.Itoa(i)
		events = append(events, w.event(base.Subject, a, e.Data))
	}

	return events, nil
}

func (w *worker) event(subject string, a resources.EventAttributes, data []byte) *resources.MessageEvent {
	a.ID = resources.EventID(a.Source, a.Name, a.DeliveryID)
	a.Digest, a.Bytes = resources.Digest(data), int64(len(data))

	event := resources.NewMessageEvent(a.ID)
	spec := event.TypedSpec()
	spec.Event, spec.Data, spec.NATSSubject = a, slices.Clone(data), clean(subject)

	if w.spec.Apply != nil {
		spec.Apply = w.spec.Apply.Clone()
		event.Metadata().Finalizers().Add(resources.FinalizerDocuments)
	}

	event.Metadata().Finalizers().Add(resources.FinalizerTrigger)

	return event
}

// kept returns the headers in lower case, without credentials, bounded.
func kept(h nats.Header) map[string]string {
	headers, size := map[string]string{}, 0

	for _, name := range resources.SortedKeys(h) {
		lower, value := clean(strings.ToLower(name)), clean(strings.Join(h[name], ", "))
		size += len(lower) + len(value)

		if credentials[lower] || len(headers) == maxHeaders || size > maxHeaderBytes {
			continue
		}

		headers[lower] = value
	}

	return headers
}
