package resources

import "github.com/cosi-project/runtime/pkg/resource"

// EventSpec is the specification of any event kind.
type EventSpec interface {
	Attributes() *EventAttributes
}

// AttributesOf returns the attributes of an event resource; nil for any other.
func AttributesOf(r resource.Resource) *EventAttributes {
	if resource.IsTombstone(r) {
		return nil // it panics when asked for a specification
	}

	if s, ok := r.Spec().(EventSpec); ok {
		return s.Attributes()
	}

	return nil
}
