package status

import (
	"fmt"
	"strconv"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/nats-io/nats.go"

	"gateway/broker"
	"gateway/resources"
)

// Headers of a published status. Nats-Msg-Id is case-sensitive and written exactly so.
const (
	headerMessageID   = "Nats-Msg-Id"
	headerContentType = "content-type"
	headerRevision    = "Gateway-Revision"
	// headerOperation makes the KV bucket, which the server feeds from the stream, delete the key (NATS ADR-8).
	headerOperation = "KV-Operation"

	contentType = "application/cloudevents+json"
)

// cloudEvent is CloudEvents 1.0 in structured mode (JSON format). Revision and Cause are extension attributes.
type cloudEvent struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Revision        string    `json:"gatewayrevision"`
	Cause           string    `json:"gatewaycause,omitempty"`
	Data            any       `json:"data"`
}

// vmData and hostData are the data of an event: the status as `gateway get -o json` has it, with the object's name.
type vmData struct {
	Name string `json:"name"`
	*resources.VMStatusSpec
}

type hostData struct {
	Name string `json:"name"`
	*resources.HostStatusSpec
}

type deletedData struct {
	Name       string   `json:"name"`
	UID        string   `json:"uid"`
	LeftBehind []string `json:"leftBehind,omitempty"`
}

// encoder makes messages of resources. The same version of a resource makes the same bytes.
type encoder struct {
	names   broker.Names
	gateway string
	scratch scratch
}

// status encodes a VMStatus or HostStatus.
func (e *encoder) status(r resource.Resource) (*nats.Msg, error) {
	md := r.Metadata()
	event := cloudEvent{Time: md.Updated().UTC()}

	var kind, uid string

	switch spec := r.Spec().(type) {
	case *resources.VMStatusSpec:
		kind, uid, event.Cause = "VM", spec.UID, spec.Cause
		event.Type, event.Data = "gateway.vm.status.v1", vmData{Name: md.ID(), VMStatusSpec: spec}
	case *resources.HostStatusSpec:
		kind, uid, event.Cause = "Host", spec.UID, resources.CauseOf(md)
		event.Type, event.Data = "gateway.host.status.v1", hostData{Name: md.ID(), HostStatusSpec: spec}
	default:
		return nil, fmt.Errorf("%s is not a status that is published", md.Type())
	}

	return e.message(kind, md.ID(), uid, md.Version().Value(), event)
}

// deleted encodes the last message of an object.
func (e *encoder) deleted(t *resources.TombstoneSpec) (*nats.Msg, error) {
	event := cloudEvent{Time: t.Time.UTC(), Cause: t.Cause, Data: deletedData{Name: t.Name, UID: t.UID, LeftBehind: t.LeftBehind}}
	event.Type = "gateway.vm.deleted.v1"

	if t.Kind == "Host" {
		event.Type = "gateway.host.deleted.v1"
	}

	msg, err := e.message(t.Kind, t.Name, t.UID, t.Number, event)
	if err != nil {
		return nil, err
	}

	msg.Header.Set(headerOperation, "PURGE")

	return msg, nil
}

func (e *encoder) message(kind, name, uid string, number uint64, event cloudEvent) (*nats.Msg, error) {
	subject := "vm/" + name
	if kind == "Host" {
		subject = "host/" + name
	}

	revision := strconv.FormatUint(number, 10)

	event.SpecVersion, event.ID, event.Source = "1.0", uid+"/"+revision, "/gateway/"+e.gateway
	event.Subject, event.DataContentType, event.Revision = subject, "application/json", revision

	data, err := e.scratch.marshal(&event)
	if err != nil {
		return nil, fmt.Errorf("error encoding the status of %s/%s: %w", kind, name, err)
	}

	// NATS headers are case-sensitive: they are written exactly so.
	return &nats.Msg{Subject: e.names.Status(kind, name), Data: data, Header: nats.Header{
		headerMessageID: {event.ID}, headerContentType: {contentType}, headerRevision: {revision},
	}}, nil
}
