package resources

import (
	"strconv"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource"
)

// reservedPrefix starts the annotations that the gateway writes itself. Users can neither set nor see them as
// annotations: they are the uid, the revision, the origin and the cause of an object.
const reservedPrefix = "gateway.dev/"

const (
	annotationUID      = reservedPrefix + "uid"
	annotationRevision = reservedPrefix + "revision"
	annotationOrigin   = reservedPrefix + "origin"
	annotationRoot     = reservedPrefix + "origin-root"
	annotationCause    = reservedPrefix + "cause"
)

// OriginSource says through which way in an object was declared.
type OriginSource string

// Sources of declarations.
const (
	OriginFile         OriginSource = "file"
	OriginWebhook      OriginSource = "webhook"
	OriginSubscription OriginSource = "subscription"
	OriginAPI          OriginSource = "api"
	// OriginTrigger is the origin of what a trigger's `apply` declared.
	OriginTrigger OriginSource = "trigger"
	// OriginRequest is the origin of what `PREFIX.request.apply` on NATS declared: NATS does not say who asks.
	OriginRequest OriginSource = "request"
)

// Origin is who declared an object, and so who may change it or take it away.
type Origin struct {
	Source OriginSource
	// Name is the absolute path of a file, or the name of a webhook, subscription or trigger; empty for the API.
	Name string
	// Root is the documents directory that a file is under; empty for others.
	Root string
}

// String is the origin as users see it: file:/etc/gateway/documents.d/web.yaml, webhook:inbox, api.
func (o Origin) String() string {
	if o.Name == "" {
		return string(o.Source)
	}

	return string(o.Source) + ":" + o.Name
}

// IsZero reports whether there is no origin.
func (o Origin) IsZero() bool { return o.Source == "" }

// Same reports whether both are the same declarer.
func (o Origin) Same(other Origin) bool { return o.Source == other.Source && o.Name == other.Name }

// IsOperator reports whether the origin is one that may declare every kind: a documents directory or the socket.
func (o Origin) IsOperator() bool { return o.Source == OriginFile || o.Source == OriginAPI }

// OriginOf returns who declared the object; zero where nobody did.
func OriginOf(md *resource.Metadata) Origin {
	text, _ := md.Annotations().Get(annotationOrigin)
	root, _ := md.Annotations().Get(annotationRoot)
	source, name, _ := strings.Cut(text, ":")

	return Origin{Source: OriginSource(source), Name: name, Root: root}
}

// SetOrigin notes who declared the object.
func SetOrigin(md *resource.Metadata, o Origin) {
	setAnnotation(md, annotationOrigin, o.String())
	setAnnotation(md, annotationRoot, o.Root)
}

// UIDOf returns the object's uid: a random UUID that no later object of the same name shares.
func UIDOf(md *resource.Metadata) string { return annotation(md, annotationUID) }

// SetUID sets the uid, once, when the object is created.
func SetUID(md *resource.Metadata, uid string) { setAnnotation(md, annotationUID, uid) }

// RevisionOf returns the spec revision: 1 for a new object, raised only when spec or labels change. 0 where there is none.
func RevisionOf(md *resource.Metadata) int64 {
	n, err := strconv.ParseInt(annotation(md, annotationRevision), 10, 64)
	if err != nil {
		return 0
	}

	return n
}

// SetRevision sets the spec revision.
func SetRevision(md *resource.Metadata, n int64) {
	setAnnotation(md, annotationRevision, strconv.FormatInt(n, 10))
}

// CauseOf returns the id of the event, or the word for what else, led to the last write.
func CauseOf(md *resource.Metadata) string { return annotation(md, annotationCause) }

// SetCause notes what led to the write.
func SetCause(md *resource.Metadata, cause string) { setAnnotation(md, annotationCause, cause) }

// UserAnnotations returns the annotations that a user wrote.
func UserAnnotations(md *resource.Metadata) map[string]string {
	own := map[string]string{}

	for k, v := range md.Annotations().Raw() {
		if !isReserved(k) {
			own[k] = v
		}
	}

	return own
}

// SetUserAnnotations replaces the annotations that a user wrote and leaves the gateway's own.
func SetUserAnnotations(md *resource.Metadata, annotations map[string]string) {
	for k := range UserAnnotations(md) {
		md.Annotations().Delete(k)
	}

	for k, v := range annotations {
		if !isReserved(k) {
			md.Annotations().Set(k, v)
		}
	}
}

// isReserved reports whether the annotation is one of the gateway's own.
func isReserved(key string) bool {
	switch key {
	case annotationUID, annotationRevision, annotationOrigin, annotationRoot, annotationCause, annotationRemoval, annotationAbandoned, annotationSurvey:
		return true
	}

	return false
}

// SetLabels replaces all labels.
func SetLabels(md *resource.Metadata, labels map[string]string) {
	for k := range md.Labels().Raw() {
		if _, keep := labels[k]; !keep {
			md.Labels().Delete(k)
		}
	}

	for k, v := range labels {
		md.Labels().Set(k, v)
	}
}

func annotation(md *resource.Metadata, key string) string {
	v, _ := md.Annotations().Get(key)

	return v
}

func setAnnotation(md *resource.Metadata, key, value string) {
	if value == "" {
		md.Annotations().Delete(key)

		return
	}

	md.Annotations().Set(key, value)
}
