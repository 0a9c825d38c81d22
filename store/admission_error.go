package store

import (
	"errors"
	"fmt"

	"github.com/cosi-project/runtime/pkg/resource"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"gateway/resources"
)

// AdmissionError says why an object was not taken in or away.
type AdmissionError struct {
	// Reason is one of resources.Reason…: Invalid, PolicyRefused, Conflict, NotOwned, Protected, Immutable, StaleRevision, or
	// Waiting, after which the same will succeed once the old object is gone.
	Reason string
	// Object is KIND/NAME.
	Object  string
	Message string
	// Fields are those of the declaration that are why, with Invalid, Immutable and PolicyRefused.
	Fields resources.FieldErrors
	// Owner is who declared the object, with Conflict and NotOwned.
	Owner resources.Origin
	// Revision is the current one, with StaleRevision; 0 where the object does not exist.
	Revision int64
}

func (e *AdmissionError) Error() string { return e.Object + ": " + e.Message }

// GRPCStatus makes gRPC answer with a code that says what kind of error it is. It avoids those that COSI's client takes for
// a lost race, which it would try again without end.
func (e *AdmissionError) GRPCStatus() *status.Status {
	code := codes.PermissionDenied

	switch e.Reason {
	case resources.ReasonInvalid, resources.ReasonImmutable:
		code = codes.InvalidArgument
	case resources.ReasonStaleRevision:
		code = codes.Aborted
	case resources.ReasonWaiting:
		code = codes.Unavailable
	}

	return status.New(code, e.Reason+": "+e.Error())
}

// refuse makes the error of an object.
func refuse(reason string, md *resource.Metadata, kind *resources.Kind, format string, args ...any) *AdmissionError {
	return &AdmissionError{Reason: reason, Object: objectName(md, kind), Message: fmt.Sprintf(format, args...)}
}

// refuseFields makes the error of an object for what is wrong in its fields.
func refuseFields(reason string, md *resource.Metadata, kind *resources.Kind, fields resources.FieldErrors) *AdmissionError {
	e := refuse(reason, md, kind, "%s", fields)
	e.Fields = fields

	return e
}

// conflict says who declared an object, to somebody else who wants to.
func conflict(md *resource.Metadata, kind *resources.Kind, owner, origin resources.Origin) *AdmissionError {
	e := refuse(resources.ReasonConflict, md, kind, "is declared by %s, so that %s can't declare it too", owner, origin)

	if origin.Source == resources.OriginAPI && owner.Source == resources.OriginFile {
		e = refuse(resources.ReasonNotOwned, md, kind, "is declared by the file %s: change it there", owner.Name)
	}

	e.Owner = owner

	return e
}

// objectName is KIND/NAME; the COSI type stands for a kind that is not known. A name that is no name is cut.
func objectName(md *resource.Metadata, kind *resources.Kind) string {
	name := md.Type()

	if kind == nil {
		kind, _ = resources.KindByType(md.Type())
	}

	if kind != nil {
		name = kind.Name
	}

	if resources.ValidateName(md.ID()) != nil {
		return fmt.Sprintf("%s/%.64q", name, md.ID())
	}

	return name + "/" + md.ID()
}

// applied is the result for an object that is in the state.
func applied(kind *resources.Kind, r resource.Resource, outcome string) resources.AppliedObject {
	return resources.AppliedObject{
		Kind: kind.Name, Name: r.Metadata().ID(), Outcome: outcome, Revision: resources.RevisionOf(r.Metadata()),
	}
}

// refused is the result for an object that was not taken in.
func refused(md *resource.Metadata, kind *resources.Kind, err error) resources.AppliedObject {
	done := resources.AppliedObject{Kind: md.Type(), Name: md.ID(), Outcome: resources.OutcomeRefused, Message: err.Error()}
	if kind != nil {
		done.Kind = kind.Name
	}

	var e *AdmissionError
	if errors.As(err, &e) {
		done.Message = e.Message

		if e.Reason == resources.ReasonConflict || e.Reason == resources.ReasonNotOwned {
			done.Outcome = resources.OutcomeConflict
		}
	}

	return done
}
