package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"

	"gateway/resources"
)

// Removal is an object that somebody takes away.
type Removal struct {
	Kind   *resources.Kind
	Name   string
	Origin resources.Origin
	Cause  string
	// Force takes away what another declarer owns. Not what is protected: that is said in the object itself.
	Force bool
	// Rule is what a sender may take away; nil: an operator may, others only what they declared themselves.
	Rule *resources.ApplyRule
}

// Delete starts the teardown of an object; the controllers do the rest, and COSI's generic destroy controller takes it out
// of the state when nobody holds it any more. An object that is not there, or in teardown already, is success.
func (a *Admission) Delete(ctx context.Context, w Writer, r Removal) error {
	ptr := r.Kind.Pointer(r.Name)

	for range attempts {
		current, err := w.Get(ctx, ptr)
		if state.IsNotFoundError(err) {
			return nil
		}

		if err != nil {
			return fmt.Errorf("error reading %s/%s: %w", r.Kind.Name, r.Name, err)
		}

		if current.Metadata().Phase() == resource.PhaseTearingDown {
			return nil
		}

		if err := removable(current, &r); err != nil {
			return err
		}

		err = replace(ctx, w, current, tornDown(current, r.Cause))
		if errors.Is(err, errMoved) {
			continue
		}

		if err != nil {
			return err
		}

		return a.noteRemoval(current, &r)
	}

	return fmt.Errorf("error deleting %s/%s: %w %d times", r.Kind.Name, r.Name, errMoved, attempts)
}

// removable checks whether the object may be taken away.
func removable(current resource.Resource, r *Removal) error {
	md := current.Metadata()

	if r.Kind.Nature != resources.Declared {
		return refuse(resources.ReasonInvalid, md, r.Kind, "is not a kind that can be deleted")
	}

	if err := permitted(r.Kind, md, r.Origin, r.Rule); err != nil {
		return err
	}

	if r.Rule != nil && !r.Rule.Delete {
		return refuse(resources.ReasonPolicyRefused, md, r.Kind, "%s may not delete: its apply.delete is false", r.Origin)
	}

	if protected(current.Spec()) {
		return refuse(resources.ReasonProtected, md, r.Kind, "spec.protect is true: set it to false where the object is declared, then delete it")
	}

	owner := ownerOf(md)

	switch {
	case owner.Same(r.Origin), r.Force:
		return nil
	case r.Origin.Source == resources.OriginAPI && owner.Source != resources.OriginFile:
		return nil // an operator takes away what senders declared; with a file it would come back
	}

	e := refuse(resources.ReasonNotOwned, md, r.Kind, "is declared by %s, so that %s can't delete it", owner, r.Origin)
	if owner.Source == resources.OriginFile {
		e.Message = fmt.Sprintf("is declared by the file %s: remove it there", owner.Name)
	}

	e.Owner = owner

	return e
}

// tornDown returns the object in teardown.
func tornDown(current resource.Resource, cause string) resource.Resource {
	desired := current.DeepCopy()
	desired.Metadata().SetPhase(resource.PhaseTearingDown)
	resources.SetCause(desired.Metadata(), cause)

	return desired
}

// noteChange writes the journal entry of a created or changed object. moved says who declared it before.
func (a *Admission) noteChange(done resources.AppliedObject, origin resources.Origin, cause, moved string) error {
	message := fmt.Sprintf("revision %d", done.Revision)
	if moved != "" {
		message += ", declared by " + moved + " before"
	}

	return a.note(Entry{
		Class: ClassRevision, Source: string(origin.Source), Name: origin.Name, EventID: cause,
		Object: done.Kind + "/" + done.Name, Reason: done.Outcome, Message: message,
	})
}

// noteRemoval writes the journal entries of an object that is taken away.
func (a *Admission) noteRemoval(current resource.Resource, r *Removal) error {
	md := current.Metadata()
	e := Entry{
		Class: ClassRevision, Source: string(r.Origin.Source), Name: r.Origin.Name, EventID: r.Cause,
		Object: objectName(md, r.Kind), Reason: resources.OutcomeDeleted,
		Message: fmt.Sprintf("revision %d, declared by %s", resources.RevisionOf(md), ownerOf(md)),
	}

	if err := a.note(e); err != nil || !r.Force {
		return err
	}

	e.Class = ClassForced

	return a.note(e)
}

// note appends an entry. The change stands when it fails; who asked for it is told, and asking again changes nothing more.
func (a *Admission) note(e Entry) error {
	if err := a.journal.Append(e); err != nil {
		return fmt.Errorf("error noting what was done to %s: %w", e.Object, err)
	}

	return nil
}
