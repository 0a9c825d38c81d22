package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"go.yaml.in/yaml/v4"

	"gateway/resources"
)

// Object is a declared object joined with what was observed of it, as `-o json`, `-o yaml` and the API show it. The order
// of its fields is part of the contract.
type Object struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   ObjectMetadata `json:"metadata"`
	Spec       any            `json:"spec,omitempty"`
	Status     any            `json:"status,omitempty"`
}

// ObjectMetadata is who an object is, and who declared it.
type ObjectMetadata struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	UID         string            `json:"uid,omitempty"`
	Revision    int64             `json:"revision,omitempty"`
	Created     time.Time         `json:"created,omitzero"`
	// Origin is as in resources.Origin: file:PATH, webhook:NAME, api.
	Origin string `json:"origin,omitempty"`
	// Deleting: it is being torn down, or will be when nobody uses it any more.
	Deleting bool `json:"deleting,omitempty"`
}

// NewObject joins the halves of an object; status may be nil. Of a kind that is observed only, as FileStatus, the resource
// is given as declared and shown under status. Secrets are redacted.
func NewObject(declared, status resource.Resource) Object {
	kind, md := resources.KindOf(declared.Metadata()), declared.Metadata()

	object := Object{
		APIVersion: resources.APIVersion,
		Kind:       kind.Name,
		Metadata: ObjectMetadata{
			Name:        md.ID(),
			Labels:      copyOf(md.Labels().Raw()),
			Annotations: resources.UserAnnotations(md),
			UID:         resources.UIDOf(md),
			Revision:    resources.RevisionOf(md),
			Created:     md.Created().UTC(),
			Origin:      resources.OriginOf(md).String(),
			Deleting:    resources.IsLeaving(md),
		},
	}

	if kind.Nature == resources.Observed {
		object.Status = declared.Spec()
	} else {
		object.Spec = Redact(declared.Spec())
	}

	if status != nil {
		object.Status = status.Spec()
	}

	return object
}

func copyOf(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}

	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = v
	}

	return out
}

// JSON returns the object as JSON on one line, with characters as they are and not escaped for HTML.
func (o Object) JSON() ([]byte, error) {
	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)

	if err := encoder.Encode(o); err != nil {
		return nil, fmt.Errorf("error encoding %s/%s: %w", o.Kind, o.Metadata.Name, err)
	}

	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// YAML returns the object as YAML, with the names and the order of fields of its JSON.
func (o Object) YAML() ([]byte, error) {
	text, err := o.JSON()
	if err != nil {
		return nil, err
	}

	out, err := YAML(text)
	if err != nil {
		return nil, fmt.Errorf("error encoding %s/%s: %w", o.Kind, o.Metadata.Name, err)
	}

	return out, nil
}

// YAML returns a JSON text as YAML, with its names and its order of fields.
func YAML(text []byte) ([]byte, error) {
	root, ok := parseJSON(text)
	if !ok {
		return nil, fmt.Errorf("not JSON, or nested more than %d levels deep", maxDepth)
	}

	block(root)

	return yaml.Dump(root)
}

// yaml11 are words that readers of YAML 1.1 take for booleans; quoted, every reader sees text.
var yaml11 = map[string]bool{"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true}

// block makes nodes of JSON look like YAML written by hand: blocks, and quotes only where they are needed.
func block(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode {
		n.Style = 0
		if len(n.Content) == 0 {
			n.Style = yaml.FlowStyle
		}
	}

	if n.Kind == yaml.ScalarNode && n.Style == yaml.DoubleQuotedStyle {
		plain := &yaml.Node{Kind: yaml.ScalarNode, Value: n.Value}

		switch {
		case strings.Contains(n.Value, "\n"):
			n.Style = yaml.LiteralStyle
		case scalarTag(plain) == tagString && !yaml11[strings.ToLower(n.Value)]:
			n.Style = 0
		}
	}

	for _, child := range n.Content {
		block(child)
	}
}
