package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	// Abandon gives up what is on a host that can't be reached: the host's domains, or the VM's. It needs Force.
	Abandon bool
	// Lost names what is given up, for the journal.
	Lost []string
	// Rule is what a sender may take away; nil: an operator may, others only what they declared themselves.
	Rule *resources.ApplyRule
	// DryRun checks everything and writes nothing.
	DryRun bool
}

// Delete starts the teardown of an object; the controllers do the rest, and COSI's generic destroy controller takes it out
// of the state when nobody holds it any more. A host or network that VMs use is only marked: its teardown begins when the
// last of them has gone, and until then it can be declared again. An object that is not there, or is going already, is
// success; one that is going is still given up where that is asked for.
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

		if going := resources.IsLeaving(current.Metadata()); going && (!r.Abandon || resources.IsAbandoned(current.Metadata())) {
			return nil
		}

		if err := removable(current, &r); err != nil || r.DryRun {
			return err
		}

		err = replace(ctx, w, current, removed(current, &r))
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

// removed returns the object as it is once it was taken away.
func removed(current resource.Resource, r *Removal) resource.Resource {
	desired := current.DeepCopy()
	md := desired.Metadata()

	resources.SetCause(md, r.Cause)

	if r.Abandon {
		resources.SetAbandoned(md, r.Cause)
	}

	if resources.IsUsed(md) && !r.Abandon && md.Phase() == resource.PhaseRunning {
		resources.SetRemovalPending(md, r.Cause)
	} else {
		md.SetPhase(resource.PhaseTearingDown)
	}

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
	if r.Abandon {
		e.Message += "; given up: " + strings.Join(r.Lost, ", ")
	}

	return a.note(e)
}

// note appends an entry. The change stands when it fails; who asked for it is told, and asking again changes nothing more.
func (a *Admission) note(e Entry) error {
	if err := a.journal.Append(e); err != nil {
		return fmt.Errorf("error noting what was done to %s: %w", e.Object, err)
	}

	return nil
}
