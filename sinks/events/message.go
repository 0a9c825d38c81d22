package events

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"gateway/broker"
	"gateway/resources"
	"gateway/store"
)

// headerJournal carries the number of the journal's entry: the newest one in a stream is where publishing goes on.
const (
	headerJournal     = "Gateway-Journal"
	headerReason      = "Gateway-Reason"
	headerMessageID   = "Nats-Msg-Id"
	headerContentType = "content-type"
)

// cloudEvent is CloudEvents 1.0 in structured mode. What the gateway adds are extension attributes.
type cloudEvent struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject,omitempty"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype,omitempty"`
	GatewaySource   string    `json:"gatewaysource"`
	GatewayName     string    `json:"gatewayname"`
	Digest          string    `json:"gatewaydigest,omitempty"`
	Bytes           int64     `json:"gatewaybytes"`
	Hops            int       `json:"gatewayhops"`
	// Cut says that the data is longer than what the journal keeps, and therefore not here.
	Cut        bool            `json:"gatewaycut,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	DataBase64 []byte          `json:"data_base64,omitempty"`
}

// messageID is the Nats-Msg-Id of an entry: the same for each attempt, another one for each entry.
func messageID(e *store.Entry) string {
	return e.EventID + "/" + strconv.FormatUint(e.Number, 10)
}

// isFull reports whether the data is published too: where the declaration says so, and of a dead letter that came over NATS,
// which has its data there already. Other dead letters are what senders wanted to apply, which can hold secrets.
func isFull(e *store.Entry, a *resources.EventAttributes) bool {
	if e.Class == store.ClassDead && e.Source != resources.SourceSubscription {
		return false
	}

	return a.Publish == "full"
}

// encode makes the message of an entry.
func encode(names broker.Names, gateway string, e *store.Entry, withData bool) (*nats.Msg, error) {
	var a resources.EventAttributes

	if len(e.Attributes) > 0 {
		if err := json.Unmarshal(e.Attributes, &a); err != nil {
			return nil, fmt.Errorf("error decoding the attributes of event %s: %w", e.EventID, err)
		}
	}

	event := cloudEvent{
		SpecVersion: "1.0", ID: e.EventID, Source: a.CESource, Type: a.Type, Subject: a.Subject, Time: a.Time.UTC(),
		DataContentType: a.DataContentType, GatewaySource: e.Source, GatewayName: e.Name, Digest: a.Digest, Bytes: a.Bytes,
		Hops: a.Hops + 1,
	}

	if event.Source == "" {
		event.Source = "/gateway/" + gateway + "/" + url.PathEscape(e.Source)
		if e.Name != "" {
			event.Source += "/" + broker.EncodeToken(e.Name)
		}
	}

	if event.Type == "" {
		event.Type = "gateway.event.v1"
	}

	if event.Time.IsZero() {
		event.Time = e.Time.UTC()
	}

	full := isFull(e, &a)
	event.setData(e, full && withData)
	event.Cut = event.Cut || full && !withData

	data, err := json.Marshal(event)
	if err != nil {
		return nil, fmt.Errorf("error encoding event %s: %w", e.EventID, err)
	}

	msg := &nats.Msg{Subject: names.Event(e.Source, e.Name), Data: data, Header: nats.Header{
		headerMessageID:   {messageID(e)},
		headerContentType: {"application/cloudevents+json"},
		headerJournal:     {strconv.FormatUint(e.Number, 10)},
		broker.HeaderHops: {strconv.Itoa(event.Hops)},
	}}

	if e.Class == store.ClassDead {
		msg.Subject = names.Dead(e.Source, e.Name)
		msg.Header[headerReason] = []string{oneLine(e.Reason + ": " + e.Message)}
	}

	return msg, nil
}

// setData sets the data as the JSON format of CloudEvents has it: JSON as it is, everything else in base64.
func (c *cloudEvent) setData(e *store.Entry, full bool) {
	switch {
	case !full:
		c.DataContentType = ""
	case int64(len(e.Data)) < c.Bytes:
		c.DataContentType, c.Cut = "", c.Bytes > 0 && len(e.Data) > 0
	case isJSON(c.DataContentType) && json.Valid(e.Data):
		c.Data = e.Data
	default:
		c.DataBase64 = e.Data
	}
}

// isJSON reports whether data of a type may stand as JSON in an event. Without a type it is JSON.
func isJSON(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)

	return contentType == "" || err == nil && (strings.HasSuffix(mediaType, "/json") || strings.HasSuffix(mediaType, "+json"))
}

// maxReason bounds the header with the reason.
const maxReason = 512

// oneLine makes a header value of a text: no line breaks, bounded.
func oneLine(text string) string {
	line := make([]rune, 0, min(len(text), maxReason))

	for _, r := range text {
		if r < ' ' || r == 0x7f {
			r = ' '
		}

		if line = append(line, r); len(line) == maxReason {
			break
		}
	}

	return string(line)
}
