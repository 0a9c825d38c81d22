package resources

import (
	"cmp"
	"slices"

	"github.com/cosi-project/runtime/pkg/resource"
)

// Annotations of what goes. Only the admission and the commands of operators set them.
const (
	annotationRemoval   = reservedPrefix + "removal"
	annotationAbandoned = reservedPrefix + "abandoned"
	annotationSurvey    = reservedPrefix + "survey"
)

// unknownCause stands for a cause that nobody named.
const unknownCause = "unknown"

// holders are the controllers whose finalizer says that VMs use an object of a kind.
var holders = map[string]resource.Finalizer{HostType: ControllerPlacement, NetworkType: ControllerNetwork, ImageType: ControllerVM}

// RemovalKinds are the kinds whose removal can be taken back while VMs use them, sorted by name.
func RemovalKinds() []*Kind {
	return slices.DeleteFunc(DeclaredKinds(), func(k *Kind) bool { return holders[k.Type] == "" })
}

// IsUsed reports whether VMs are on a Host or a Network, or use an Image. Of other kinds it is not known.
func IsUsed(md *resource.Metadata) bool {
	holder := holders[md.Type()]

	return holder != "" && md.Finalizers().Has(holder)
}

// RemovalPending reports whether nobody declares an object any more that VMs still use. COSI can't take a teardown back, so
// it begins only when the last VM has gone; until then the object can be declared again as if nothing had been.
func RemovalPending(md *resource.Metadata) bool { return annotation(md, annotationRemoval) != "" }

// SetRemovalPending notes what took the declaration away.
func SetRemovalPending(md *resource.Metadata, cause string) {
	setAnnotation(md, annotationRemoval, cmp.Or(cause, unknownCause))
}

// ClearRemoval notes that the object is declared again.
func ClearRemoval(md *resource.Metadata) { setAnnotation(md, annotationRemoval, "") }

// IsLeaving reports whether an object is being torn down, or will be when nobody uses it any more. Nothing new may use it.
func IsLeaving(md *resource.Metadata) bool {
	return md.Phase() == resource.PhaseTearingDown || RemovalPending(md)
}

// IsAbandoned reports whether a person gave up a host that can't be reached, or what a VM has on such a host: nothing of it
// is taken apart any more.
func IsAbandoned(md *resource.Metadata) bool { return annotation(md, annotationAbandoned) != "" }

// SetAbandoned notes the command that gave the object up.
func SetAbandoned(md *resource.Metadata, cause string) {
	setAnnotation(md, annotationAbandoned, cmp.Or(cause, unknownCause))
}

// SurveyOf returns for what reason a host's leftover domains have to be looked for; empty: when it is new.
func SurveyOf(md *resource.Metadata) string { return annotation(md, annotationSurvey) }

// SetSurvey has a host's leftover domains looked for when it is connected next: something of a VM was given up there.
func SetSurvey(md *resource.Metadata, cause string) { setAnnotation(md, annotationSurvey, cause) }
