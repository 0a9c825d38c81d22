package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/impl/inmem"

	"gateway/resources"
)

// Guard returns st as clients may use it, over gRPC for instance: declared objects pass the same checks as on every other way
// in, with the API as origin; Overrides, Holds, Resyncs and Actions are written as they are; everything else is read-only.
// A write is refused with an *AdmissionError. Nobody waits for the barrier here: who answers a client does.
func (a *Admission) Guard(st state.CoreState) state.CoreState {
	return &guard{CoreState: st, admission: a}
}

// guard implements state.CoreState. Reads and watches pass through.
type guard struct {
	state.CoreState

	admission *Admission
}

// apiOrigin is who writes through a guard; apiCause what its writes are caused by.
var apiOrigin = resources.Origin{Source: resources.OriginAPI}

const apiCause = "api"

// commandKinds are the kinds beside the declared ones that clients write.
var commandKinds = []string{"Override", "Hold", "Resync", "Action"}

// keptFinalizers are those of the gateway's own controllers, which no client adds or takes off: work would be left undone,
// or an object in teardown for ever.
var keptFinalizers = []resource.Finalizer{
	resources.ControllerDocuments, resources.ControllerTrigger, resources.ControllerPlacement, resources.ControllerNetwork,
	resources.ControllerVM, resources.ControllerImage, resources.ControllerHost, resources.ControllerRetention,
	resources.ControllerResync, resources.SourceFiles, resources.SourceSchedules, resources.SourceWebhooks,
	resources.SourceSubscriptions, resources.SourceDomainEvents, resources.FinalizerPublish,
}

// writable returns the kind of an object that a client wants to write, and whether it is a declared one.
func writable(md *resource.Metadata, owner string) (kind *resources.Kind, declared bool, err error) {
	kind, ok := resources.KindByType(md.Type())

	switch {
	case !ok || md.Namespace() != kind.Namespace || kind.Nature != resources.Declared && !slices.Contains(commandKinds, kind.Name):
		return kind, false, refuse(resources.ReasonNotOwned, md, kind, "is read-only: only declared objects and %s are written by clients", strings.Join(commandKinds, ", "))
	case owner != "":
		return kind, false, refuse(resources.ReasonInvalid, md, kind, "can't be written as %q: clients write without an owner", owner)
	}

	return kind, kind.Nature == resources.Declared, nil
}

// Create implements state.CoreState.
func (g *guard) Create(ctx context.Context, r resource.Resource, opts ...state.CreateOption) error {
	var options state.CreateOptions
	for _, opt := range opts {
		opt(&options)
	}

	kind, declared, err := writable(r.Metadata(), options.Owner)
	if err != nil {
		return err
	}

	if declared {
		return g.declare(ctx, kind, r)
	}

	if err := checkCommand(kind, r); err != nil {
		return err
	}

	if err := g.checkOverride(ctx, r); err != nil {
		return err
	}

	created := kind.New(r.Metadata().ID())
	setContent(created, r)
	resources.SetCause(created.Metadata(), apiCause)

	if action := signed(created); action != nil {
		created.Metadata().Finalizers().Add(action.Finalizer()) // says who executes it
	}

	if err := g.CoreState.Create(ctx, created); err != nil {
		return err
	}

	*r.Metadata() = *created.Metadata()

	return nil
}

// declare creates a declared object. Unlike Apply it does not change one that is there.
func (g *guard) declare(ctx context.Context, kind *resources.Kind, r resource.Resource) error {
	c := Change{Object: r, Origin: apiOrigin, Cause: apiCause}
	if _, err := g.admission.admit(&c); err != nil {
		return err
	}

	created, err := g.admission.newObject(kind, &c)
	if err != nil {
		return err
	}

	if err := g.CoreState.Create(ctx, created); err != nil {
		return err
	}

	*r.Metadata() = *created.Metadata()

	return g.admission.noteChange(applied(kind, created, resources.OutcomeCreated), c.Origin, c.Cause, "")
}

// Update implements state.CoreState.
func (g *guard) Update(ctx context.Context, r resource.Resource, opts ...state.UpdateOption) error {
	options := state.DefaultUpdateOptions()
	for _, opt := range opts {
		opt(&options)
	}

	kind, declared, err := writable(r.Metadata(), options.Owner)
	if err != nil {
		return err
	}

	current, err := g.Get(ctx, r.Metadata())
	if err != nil {
		return err
	}

	was, now := current.Metadata(), r.Metadata()

	switch {
	case !was.Version().Equal(now.Version()):
		return inmem.ErrVersionConflict(was, now.Version(), was.Version())
	case options.ExpectedPhase != nil && *options.ExpectedPhase != was.Phase():
		return inmem.ErrPhaseConflict(was, *options.ExpectedPhase)
	case was.Phase() == resource.PhaseTearingDown && now.Phase() == resource.PhaseRunning:
		return refuse(resources.ReasonWaiting, was, kind, "is being torn down: that can't be taken back")
	}

	if err := checkFinalizers(kind, was, now); err != nil {
		return err
	}

	if declared {
		return g.change(ctx, kind, current, r)
	}

	if err := checkCommand(kind, r); err != nil {
		return err
	}

	if err := g.checkOverride(ctx, r); err != nil {
		return err
	}

	desired := current.DeepCopy()
	setContent(desired, r)
	signed(desired)

	return g.write(ctx, desired, r)
}

// signed notes who asks for an action, which is not the client's to say. It returns the action; nil for other commands.
func signed(r resource.Resource) *resources.ActionSpec {
	action, ok := r.Spec().(*resources.ActionSpec)
	if ok {
		action.By = apiCause
	}

	return action
}

// change writes the client's version of a declared object: another content, a teardown, or other finalizers.
func (g *guard) change(ctx context.Context, kind *resources.Kind, current, r resource.Resource) error {
	if current.Metadata().Phase() == resource.PhaseRunning && r.Metadata().Phase() == resource.PhaseTearingDown {
		return g.tearDown(ctx, kind, current, r)
	}

	// An operator edits what senders declared, and it stays theirs. What a file declares is edited in the file.
	c := Change{Object: r, Origin: ownerOf(current.Metadata()), Cause: apiCause}

	desired, err := changed(current, r)
	if err != nil {
		return fmt.Errorf("error comparing %s: %w", objectName(current.Metadata(), kind), err)
	}

	if desired == nil {
		return g.write(ctx, current.DeepCopy(), r)
	}

	if c.Origin.Source == resources.OriginFile {
		return conflict(current.Metadata(), kind, c.Origin, apiOrigin)
	}

	check := c
	check.Origin = apiOrigin

	if _, err := g.admission.admit(&check); err != nil {
		return err
	}

	c.Origin.Root = resources.OriginOf(current.Metadata()).Root

	if desired, _, err = g.admission.desired(kind, current, &c); err != nil {
		return err
	}

	if err := g.write(ctx, desired, r); err != nil {
		return err
	}

	return g.admission.noteChange(applied(kind, r, resources.OutcomeUpdated), apiOrigin, apiCause, "")
}

// tearDown takes a declared object away, which Teardown of COSI's client asks for as an update of the phase. One that VMs
// use stays in its phase, as with every other way to take it away.
func (g *guard) tearDown(ctx context.Context, kind *resources.Kind, current, r resource.Resource) error {
	removal := Removal{Kind: kind, Name: r.Metadata().ID(), Origin: apiOrigin, Cause: apiCause}
	if err := removable(current, &removal); err != nil {
		return err
	}

	desired := removed(current, &removal)
	r.Metadata().SetPhase(desired.Metadata().Phase())

	if err := g.write(ctx, desired, r); err != nil {
		return err
	}

	return g.admission.noteRemoval(current, &removal)
}

// write writes desired with the finalizers and the phase that the client gave r, unless nothing differs, and gives r the
// metadata of what is then in the state.
func (g *guard) write(ctx context.Context, desired, r resource.Resource) error {
	before := desired.Metadata().Finalizers()
	for _, f := range slices.Clone(*before) {
		before.Remove(f)
	}

	for _, f := range *r.Metadata().Finalizers() {
		before.Add(f)
	}

	desired.Metadata().SetPhase(r.Metadata().Phase())

	current, err := g.Get(ctx, desired.Metadata())
	if err != nil {
		return err
	}

	if !resource.Equal(current, desired) {
		if err := g.CoreState.Update(ctx, desired, state.WithUpdateOwner(desired.Metadata().Owner()), state.WithExpectedPhaseAny()); err != nil {
			return err
		}
	}

	*r.Metadata() = *desired.Metadata()

	return nil
}

// Destroy implements state.CoreState.
func (g *guard) Destroy(ctx context.Context, ptr resource.Pointer, opts ...state.DestroyOption) error {
	var options state.DestroyOptions
	for _, opt := range opts {
		opt(&options)
	}

	md := resource.NewMetadata(ptr.Namespace(), ptr.Type(), ptr.ID(), resource.VersionUndefined)

	kind, declared, err := writable(&md, options.Owner)
	if err != nil {
		return err
	}

	current, err := g.Get(ctx, ptr)
	if err != nil {
		return err
	}

	// An operator takes back what a trigger or another operator asked for, so the owner is the one that stands there.
	if !declared {
		return g.CoreState.Destroy(ctx, ptr, state.WithDestroyOwner(current.Metadata().Owner()))
	}

	// The teardown comes first, so that nobody can protect the object between the check and the end.
	if !resources.IsLeaving(current.Metadata()) {
		if err := g.tearDown(ctx, kind, current, current.DeepCopy()); err != nil {
			return err
		}
	}

	// The generic destroy controller may be faster.
	if err := g.CoreState.Destroy(ctx, ptr); err != nil && !state.IsNotFoundError(err) {
		return err
	}

	return nil
}

// checkFinalizers refuses to add or to take off finalizers of the gateway's controllers.
func checkFinalizers(kind *resources.Kind, was, now *resource.Metadata) error {
	for _, f := range keptFinalizers {
		if was.Finalizers().Has(f) != now.Finalizers().Has(f) {
			return refuse(resources.ReasonNotOwned, was, kind, "the finalizer %q belongs to the gateway's own controllers", f)
		}
	}

	return nil
}

// checkCommand checks an Override, Hold, Resync or Action.
func checkCommand(kind *resources.Kind, r resource.Resource) error {
	const maxID = 253

	md := r.Metadata()
	if id := md.ID(); id == "" || len(id) > maxID || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return refuse(resources.ReasonInvalid, md, kind, "the id has not 1 to %d printable characters", maxID)
	}

	errs := append(resources.ValidateLabels("metadata.labels", md.Labels().Raw()), resources.ValidateSpec(r.Spec())...)
	if errs = append(errs, resources.ValidateAnnotations("metadata.annotations", resources.UserAnnotations(md))...); len(errs) > 0 {
		return refuse(resources.ReasonInvalid, md, kind, "%s", errs)
	}

	return nil
}
