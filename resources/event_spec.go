package resources

import "github.com/cosi-project/runtime/pkg/resource"

// EventSpec is the specification of any event kind.
type EventSpec interface {
	Attributes() *EventAttributes
}

// AttributesOf returns the attributes of an event resource; nil for any other.
func AttributesOf(r resource.Resource) *EventAttributes {
	if s, ok := r.Spec().(EventSpec); ok {
		return s.Attributes()
	}

	return nil
}
