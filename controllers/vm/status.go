package vm

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/config"
	"gateway/controllers/chain"
	"gateway/resources"
)

// causeResync is the cause of what no event led to.
const causeResync = "resync"

// beginStatus starts from the status that there is, and from the spec that is in force.
func (p *pass) beginStatus() {
	if p.current != nil {
		p.status = p.current.TypedSpec().DeepCopy()
		p.anchor()
	} else {
		p.status = *resources.NewVMStatus(p.id).TypedSpec()
	}

	p.applyOverride()
	p.status.UID = resources.UIDOf(p.config.Metadata())
	p.status.Held = p.hold != nil
}

// applyOverride finds the spec that is in force. An override that does not apply is left out and said so.
func (p *pass) applyOverride() {
	p.spec, p.patch, p.status.Override = p.config.TypedSpec(), nil, nil
	p.accept()

	if !chain.Running(p.override) || p.override.TypedSpec().IsEmpty() {
		return
	}

	o, err := p.override.TypedSpec().InForce(p.now)
	if err == nil && o.IsEmpty() {
		return // over; retention takes it away
	}

	merged := p.config.TypedSpec().DeepCopy()
	if err == nil && len(o.Patch) > 0 {
		err = config.MergeSpec(&merged, o.Patch)
	}

	if err != nil {
		p.condition(resources.ConditionAccepted, resources.ConditionFalse, resources.ReasonInvalid,
			fmt.Sprintf("the override by %s does not apply: %s", orElse(o.By, "nobody known"), err))

		return
	}

	p.spec, p.patch = &merged, o.Patch
	p.status.Override = &resources.OverrideStatus{By: o.By, Since: o.Since, Until: o.Until, Labels: o.Labels}

	if p.overridden("power") {
		p.status.Override.Power = merged.Power
	}

	if !o.Until.IsZero() {
		p.after(o.Until.Sub(p.now))
	}
}

// accept says that the document is taken, and what of it is not acted upon.
func (p *pass) accept() {
	p.condition(resources.ConditionAccepted, resources.ConditionTrue, resources.ReasonAccepted, "")
}

// revision is the VM's spec revision.
func (p *pass) revision() int64 { return resources.RevisionOf(p.config.Metadata()) }

// cause is what led to the pass: an override that no pass saw yet, the first event that was noted, what changed the document, or what
// led to the status that is still being worked on.
func (p *pass) cause() string {
	if p.led == "" { // it is the same for the whole pass, whatever is written meanwhile
		p.led = p.findCause()
	}

	return p.led
}

func (p *pass) findCause() string {
	revised := p.current == nil || p.current.TypedSpec().ObservedRevision != p.revision() || p.deleting()

	// What is done now is done for the override, whatever else began the pass before its own event came.
	if !revised && p.overrideIsNew() && p.override.TypedSpec().Cause != "" {
		return p.override.TypedSpec().Cause
	}

	if len(p.causes) > 0 {
		return p.causes[0]
	}

	if revised {
		if cause := resources.CauseOf(p.config.Metadata()); cause != "" {
			return cause
		}
	}

	if p.current != nil && p.current.TypedSpec().Cause != "" {
		return p.current.TypedSpec().Cause
	}

	return causeResync
}

// overrideIsNew reports whether no status was written under the override as it is.
func (p *pass) overrideIsNew() bool {
	if !chain.Running(p.override) {
		return false
	}

	if p.current == nil || p.current.TypedSpec().Override == nil {
		return true
	}

	return !p.current.TypedSpec().Override.Since.Equal(p.override.TypedSpec().Since)
}

// condition sets one condition.
func (p *pass) condition(typ string, status resources.ConditionStatus, reason, message string) {
	p.status.Conditions = resources.SetCondition(p.status.Conditions, resources.Condition{
		Type: typ, Status: status, Reason: reason, Message: message,
	}, p.now)
}

// converged says how far the VM is, as the last word of a pass.
func (p *pass) converged(status resources.ConditionStatus, reason, message string) {
	p.judged = true
	p.condition(resources.ConditionConverged, status, reason, message)
}

// finish is the end of every pass: it turns the error into what the status says and when to look again, and writes the
// status.
func (p *pass) finish(ctx context.Context, err error) error {
	err = p.judge(err)

	if !p.silent {
		// What was said of an earlier revision is not said of this one: a pass that ended early, since something changed under
		// it, comes again.
		if !p.judged && p.status.ObservedRevision != p.revision() {
			p.converged(resources.ConditionFalse, resources.ReasonWaiting, "")
		}

		p.status.ObservedRevision = p.revision()
		err = errors.Join(err, p.write(ctx))
	}

	switch {
	case err != nil:
		return err
	case p.requeue > 0:
		return controller.NewRequeueInterval(p.requeue)
	default:
		return nil
	}
}

// flush writes the status before the end of the pass, for what must be known after a crash, and asks for the barrier again.
func (p *pass) flush(ctx context.Context) error {
	p.durable = false

	return p.write(ctx)
}

// write writes the status if anything in it but the cause changed.
func (p *pass) write(ctx context.Context) error {
	p.c.metrics.vms.set(p.id, p.status.Host, p.status.State)

	if p.current != nil {
		p.status.Cause = p.current.TypedSpec().Cause
		if reflect.DeepEqual(*p.current.TypedSpec(), p.status) {
			return nil
		}
	}

	p.status.Cause = p.cause()

	written, err := p.r.ModifyWithResult(ctx, resources.NewVMStatus(p.id), func(r resource.Resource) error {
		s, ok := r.(*resources.VMStatus)
		if !ok {
			return fmt.Errorf("the status of VM %q has the Go type %T", p.id, r)
		}

		*s.TypedSpec() = p.status.DeepCopy()
		resources.SetCause(s.Metadata(), p.status.Cause)

		return nil
	})
	if err != nil {
		return fmt.Errorf("error writing the status of VM %q: %w", p.id, err)
	}

	if s, ok := written.(*resources.VMStatus); ok {
		p.current = s
	}

	return nil
}

// setAddresses keeps the addresses in one order, so that the same ones are the same status.
func (p *pass) setAddresses(addresses []resources.Address) {
	slices.SortFunc(addresses, compareAddresses)

	addresses = slices.Compact(addresses)
	if len(addresses) == 0 {
		addresses = nil
	}

	p.status.Addresses = addresses
}
