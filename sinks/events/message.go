package events

import (
	"encoding/json"
	"fmt"
	"strconv"
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
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject,omitempty"`
	Time            time.Time       `json:"time"`
	DataContentType string          `json:"datacontenttype,omitempty"`
	GatewaySource   string          `json:"gatewaysource"`
	GatewayName     string          `json:"gatewayname"`
	Digest          string          `json:"gatewaydigest,omitempty"`
	Bytes           int64           `json:"gatewaybytes"`
	Hops            int             `json:"gatewayhops"`
	Data            json.RawMessage `json:"data,omitempty"`
	DataBase64      []byte          `json:"data_base64,omitempty"`
}

// encode makes the message of an entry.
func encode(names broker.Names, gateway string, e store.Entry) (*nats.Msg, error) {
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
		event.Source = "/gateway/" + gateway + "/" + e.Source + "/" + broker.EncodeToken(e.Name)
	}

	if event.Type == "" {
		event.Type = "gateway.event.v1"
	}

	if event.Time.IsZero() {
		event.Time = e.Time.UTC()
	}

	if a.Publish == "full" {
		if json.Valid(e.Data) {
			event.Data = e.Data
		} else {
			event.DataBase64 = e.Data
		}
	} else {
		event.DataContentType = ""
	}

	data, err := json.Marshal(event)
	if err != nil {
		return nil, fmt.Errorf("error encoding event %s: %w", e.EventID, err)
	}

	msg := &nats.Msg{Subject: names.Event(e.Source, e.Name), Data: data, Header: nats.Header{
		headerMessageID:   {e.EventID},
		headerContentType: {"application/cloudevents+json"},
		headerJournal:     {strconv.FormatUint(e.Number, 10)},
	}}

	if e.Class == store.ClassDead {
		msg.Subject = names.Dead(e.Source, e.Name)
		msg.Header[headerMessageID] = []string{e.EventID + "/dead/" + strconv.FormatUint(e.Number, 10)}
		msg.Header[headerReason] = []string{oneLine(e.Reason + ": " + e.Message)}
	}

	return msg, nil
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
