package expression

import (
	"encoding/json"
	"fmt"
	"time"
)

// Object is an element of the variable `objects`: an object as `gateway get -o json` shows it.
type Object struct {
	APIVersion string         `cel:"apiVersion" json:"apiVersion"`
	Kind       string         `cel:"kind" json:"kind"`
	Metadata   ObjectMetadata `cel:"metadata" json:"metadata"`
	// Spec and Status are parsed JSON; null where there is none.
	Spec   any `cel:"spec" json:"spec,omitempty"`
	Status any `cel:"status" json:"status,omitempty"`
}

// ObjectMetadata is who an object is. Labels and annotations are there even where it has none.
type ObjectMetadata struct {
	Name        string            `cel:"name" json:"name"`
	Labels      map[string]string `cel:"labels" json:"labels,omitempty"`
	Annotations map[string]string `cel:"annotations" json:"annotations,omitempty"`
	UID         string            `cel:"uid" json:"uid,omitempty"`
	Revision    int64             `cel:"revision" json:"revision,omitempty"`
	Created     time.Time         `cel:"created" json:"created,omitzero"`
	Origin      string            `cel:"origin" json:"origin,omitempty"`
	Deleting    bool              `cel:"deleting" json:"deleting,omitempty"`
}

// ParseObject reads an object from its JSON, with numbers as in Data. Members that an object does not have are passed over.
func ParseObject(text []byte) (Object, error) {
	var o struct {
		Object

		Spec   json.RawMessage `json:"spec"`
		Status json.RawMessage `json:"status"`
	}

	if err := json.Unmarshal(text, &o); err != nil {
		return Object{}, fmt.Errorf("error reading an object: %w", err)
	}

	o.Object.Spec, o.Object.Status = Data(o.Spec), Data(o.Status)

	if o.Metadata.Labels == nil {
		o.Metadata.Labels = map[string]string{}
	}

	if o.Metadata.Annotations == nil {
		o.Metadata.Annotations = map[string]string{}
	}

	return o.Object, nil
}
