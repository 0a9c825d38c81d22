package requests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/nats-io/nats.go/micro"

	"gateway/api"
	"gateway/config"
	"gateway/resources"
)

// apply takes documents as they stand in a file, or a JSON array of them, and answers as the socket does: with the outcome of
// each.
func (s *Service) apply(ctx context.Context, caller api.Caller, r micro.Request) (any, error) {
	const name = "request"

	decode := config.Decode
	if text := bytes.TrimSpace(r.Data()); len(text) > 0 && text[0] == '[' {
		decode = config.DecodeJSON
	}

	documents, err := decode(name, r.Data())
	if err != nil {
		return nil, err
	}

	if len(documents) == 0 {
		return nil, refuse(CodeInvalid, "the request has no documents")
	}

	return s.Operations.Apply(ctx, caller, name, documents, r.Headers().Get(HeaderDryRun) == "true")
}

// GetRequest names one object, or several by their labels; without both it is all of a kind.
type GetRequest struct {
	Kind     string              `json:"kind"`
	Name     string              `json:"name,omitempty"`
	Selector *resources.Selector `json:"selector,omitempty"`
}

// get answers with an object, or with {"items": […]}. Events and actions are not told: their data may be anybody's secret.
func (s *Service) get(ctx context.Context, _ api.Caller, r micro.Request) (any, error) {
	var request GetRequest
	if err := decode(r, &request); err != nil {
		return nil, err
	}

	kind, err := s.Operations.LookupKind(request.Kind)
	if err != nil {
		return nil, err
	}

	if kind.Nature != resources.Declared && kind.Nature != resources.Observed && kind.Nature != resources.Derived {
		return nil, refuse(CodeInvalid, "a %s can't be asked for over NATS", kind.Name)
	}

	switch {
	case request.Name != "" && request.Selector != nil:
		return nil, refuse(CodeInvalid, "give either a name or a selector, not both")
	case request.Name != "":
		return s.Operations.Get(ctx, kind, request.Name)
	}

	return s.Operations.List(ctx, kind, request.Selector)
}

// delete takes away what requests declared.
func (s *Service) delete(ctx context.Context, caller api.Caller, r micro.Request) (any, error) {
	var request api.ObjectRequest
	if err := decode(r, &request); err != nil {
		return nil, err
	}

	return s.Operations.Delete(ctx, caller, request.Kind, request.Name, false)
}

// sync asks for objects to be looked at. It is no writing: a subscription may ask for the same with its target.
func (s *Service) sync(ctx context.Context, caller api.Caller, r micro.Request) (any, error) {
	var target resources.Target
	if err := decode(r, &target); err != nil {
		return nil, err
	}

	return s.Operations.Sync(ctx, caller, target)
}

// decode reads exactly one JSON value, strictly.
func decode(r micro.Request, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(r.Data()))
	decoder.DisallowUnknownFields()

	err := decoder.Decode(into)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more after the value")
		}
	}

	if err != nil {
		return refuse(CodeInvalid, "the request can't be read: %s", err)
	}

	return nil
}
