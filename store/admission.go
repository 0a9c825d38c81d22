package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/owned"
	"github.com/google/uuid"

	"gateway/resources"
)

// Writer is what admission writes through: a controller's runtime, or owned.New(state, "").
type Writer = controller.ReaderWriter

// Policy bounds what declared objects may name: config.Policy.
type Policy interface {
	Check(r resource.Resource) resources.FieldErrors
}

// Admission is the one place that every declared object passes on its way into the state, from files, webhooks, messages,
// triggers, the API and gRPC alike. It checks names, values, policy, who owns an object, what can't be changed and what is
// protected, and it alone sets uid, spec revision, origin and cause.
type Admission struct {
	policy  Policy
	journal Journal
	// holders are the finalizers that new objects have from the start, by kind.
	holders map[string][]resource.Finalizer
}

// NewAdmission returns the admission layer. Without a policy (nil) nothing is held by one: that is for tests.
func NewAdmission(policy Policy, journal Journal) *Admission {
	return &Admission{policy: policy, journal: journal}
}

// Hold gives new objects of a kind the finalizers of controllers that hold every one of them, so that these need no write each to
// do so. Such a controller has to be running: nothing of the kind goes without it. It is called before the first Apply.
func (a *Admission) Hold(kind string, finalizers ...resource.Finalizer) {
	if a.holders == nil {
		a.holders = map[string][]resource.Finalizer{}
	}

	a.holders[kind] = finalizers
}

// Change is an object that somebody declares.
type Change struct {
	// Object carries name, labels, the user's annotations and the specification. It is not changed.
	Object resource.Resource
	Origin resources.Origin
	// Cause is the id of the event, or a word for what else led to it.
	Cause string
	// Rule is what a sender may declare; nil: an operator may declare every kind, others only VMs.
	Rule *resources.ApplyRule
	// ExpectRevision is the spec revision that the object must have, 0: any.
	ExpectRevision int64
	// TakeFrom is the declarer that gives the object up to Origin; zero: nobody does.
	TakeFrom resources.Origin
	// DryRun checks everything and writes nothing.
	DryRun bool
}

// attempts bounds how often a write is tried again because somebody else wrote in between. Each failure means that another
// write went through, and reconciling writes to one object are few.
const attempts = 16

// errMoved reports that the object is no longer what was checked.
var errMoved = errors.New("the object changed in between")

// Apply creates or changes an object, or finds it unchanged and writes nothing. The result names the object and its
// outcome with every error too; errors that say something about the object are *AdmissionError.
func (a *Admission) Apply(ctx context.Context, w Writer, c Change) (resources.AppliedObject, error) {
	kind, err := a.admit(&c)
	if err != nil {
		return refused(c.Object.Metadata(), kind, err), err
	}

	md := c.Object.Metadata()

	for range attempts {
		var current resource.Resource

		if current, err = w.Get(ctx, kind.Pointer(md.ID())); err != nil && !state.IsNotFoundError(err) {
			err = fmt.Errorf("error reading %s/%s: %w", kind.Name, md.ID(), err)

			return refused(md, kind, err), err
		}

		var done resources.AppliedObject

		if state.IsNotFoundError(err) {
			done, err = a.create(ctx, w, kind, &c)
		} else {
			done, err = a.update(ctx, w, kind, current, &c)
		}

		if !errors.Is(err, errMoved) {
			if err != nil {
				return refused(md, kind, err), err
			}

			return done, nil
		}
	}

	err = fmt.Errorf("error applying %s/%s: %w %d times", kind.Name, md.ID(), errMoved, attempts)

	return refused(md, kind, err), err
}

// admit checks what can be checked without the object that is there.
func (a *Admission) admit(c *Change) (*resources.Kind, error) {
	md := c.Object.Metadata()

	kind, ok := resources.KindByType(md.Type())
	if !ok || kind.Nature != resources.Declared || md.Namespace() != kind.Namespace {
		return kind, refuse(resources.ReasonInvalid, md, kind, "is not a kind that can be declared")
	}

	if errs := resources.Validate(c.Object); len(errs) > 0 {
		return kind, refuseFields(resources.ReasonInvalid, md, kind, errs)
	}

	if err := permitted(kind, md, c.Origin, c.Rule); err != nil {
		return kind, err
	}

	if a.policy != nil {
		if errs := a.policy.Check(c.Object); len(errs) > 0 {
			return kind, refuseFields(resources.ReasonPolicyRefused, md, kind, errs)
		}
	}

	return kind, nil
}

// create makes a new object.
func (a *Admission) create(ctx context.Context, w Writer, kind *resources.Kind, c *Change) (resources.AppliedObject, error) {
	created, err := a.newObject(kind, c)
	if err != nil {
		return resources.AppliedObject{}, err
	}

	done := applied(kind, created, resources.OutcomeCreated)
	if c.DryRun {
		return done, nil
	}

	err = w.Create(ctx, created, owned.WithCreateNoOwner())

	switch {
	case state.IsConflictError(err):
		return done, errMoved
	case err != nil:
		return done, fmt.Errorf("error creating %s/%s: %w", kind.Name, created.Metadata().ID(), err)
	}

	return done, a.noteChange(done, c.Origin, c.Cause, "")
}

// newObject builds what is stored of a declaration, with nothing of the declarer's but name, labels, annotations and spec.
func (a *Admission) newObject(kind *resources.Kind, c *Change) (resource.Resource, error) {
	md := c.Object.Metadata()

	if c.ExpectRevision != 0 {
		return nil, refuse(resources.ReasonStaleRevision, md, kind, "revision %d is expected, but the object does not exist", c.ExpectRevision)
	}

	created := kind.New(md.ID())
	setContent(created, c.Object)
	resources.SetUID(created.Metadata(), uuid.NewString())
	resources.SetRevision(created.Metadata(), 1)
	resources.SetOrigin(created.Metadata(), c.Origin)
	resources.SetCause(created.Metadata(), c.Cause)

	for _, finalizer := range a.holders[kind.Name] {
		created.Metadata().Finalizers().Add(finalizer)
	}

	return created, nil
}

// update changes an object that is there.
func (a *Admission) update(ctx context.Context, w Writer, kind *resources.Kind, current resource.Resource, c *Change) (resources.AppliedObject, error) {
	desired, moved, err := a.desired(kind, current, c)
	if err != nil {
		return resources.AppliedObject{}, err
	}

	if desired == nil {
		return applied(kind, current, resources.OutcomeUnchanged), nil
	}

	done := applied(kind, desired, resources.OutcomeUpdated)
	if c.DryRun {
		return done, nil
	}

	if err := replace(ctx, w, current, desired); err != nil {
		return done, err
	}

	return done, a.noteChange(done, c.Origin, c.Cause, moved)
}

// desired checks a change against the object that is there, and returns the object as it is to be; nil where nothing
// changes. moved says from whom the object came, where it changes owner.
func (a *Admission) desired(kind *resources.Kind, current resource.Resource, c *Change) (desired resource.Resource, moved string, err error) {
	md := current.Metadata()

	if md.Phase() == resource.PhaseTearingDown {
		return nil, "", refuse(resources.ReasonWaiting, md, kind, "is being torn down; it can be declared again when it is gone")
	}

	// Nobody declares what only waits for its last user: whoever does so now has it, as it would be with a new object.
	owner, pending := ownerOf(md), resources.RemovalPending(md)
	if !owner.Same(c.Origin) && !pending && (c.TakeFrom.IsZero() || !owner.Same(c.TakeFrom)) {
		return nil, "", conflict(md, kind, owner, c.Origin)
	}

	if revision := resources.RevisionOf(md); c.ExpectRevision != 0 && c.ExpectRevision != revision {
		e := refuse(resources.ReasonStaleRevision, md, kind, "revision %d is expected, the current one is %d", c.ExpectRevision, revision)
		e.Revision = revision

		return nil, "", e
	}

	if errs := immutable(current.Spec(), c.Object.Spec()); len(errs) > 0 && pending {
		return nil, "", refuse(resources.ReasonWaiting, md, kind, "is being removed, and VMs still use it; as long as they do, %s", errs)
	} else if len(errs) > 0 {
		return nil, "", refuseFields(resources.ReasonImmutable, md, kind, errs)
	}

	desired, err = changed(current, c.Object)
	if err != nil {
		return nil, "", fmt.Errorf("error comparing %s/%s: %w", kind.Name, md.ID(), err)
	}

	if declared := resources.OriginOf(md); declared != c.Origin || pending {
		if desired == nil {
			desired = current.DeepCopy()
		}

		resources.SetOrigin(desired.Metadata(), c.Origin)
		resources.ClearRemoval(desired.Metadata())

		if !owner.Same(c.Origin) {
			moved = owner.String()
		}
	}

	if desired == nil {
		return nil, "", nil
	}

	resources.SetCause(desired.Metadata(), c.Cause)

	if resources.UIDOf(desired.Metadata()) == "" { // written into the state by the embedding program
		resources.SetUID(desired.Metadata(), uuid.NewString())
	}

	return desired, moved, nil
}

// replace writes desired in place of current, or returns errMoved where current is no longer what is there.
func replace(ctx context.Context, w Writer, current, desired resource.Resource) error {
	empty := resources.KindOf(current.Metadata()).New(current.Metadata().ID())

	err := w.Modify(ctx, empty, func(r resource.Resource) error {
		if !r.Metadata().Version().Equal(current.Metadata().Version()) || !r.Metadata().Created().Equal(current.Metadata().Created()) {
			return errMoved
		}

		*r.Metadata() = desired.Metadata().Copy()
		setSpec(r, desired)

		return nil
	}, owned.WithModifyNoOwner(), controller.WithExpectedPhaseAny())

	switch {
	case errors.Is(err, errMoved), state.IsPhaseConflictError(err):
		return errMoved
	case err != nil:
		return fmt.Errorf("error writing %s: %w", objectName(current.Metadata(), nil), err)
	}

	return nil
}
