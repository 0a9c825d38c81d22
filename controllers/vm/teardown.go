package vm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/state"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/hypervisor"
	"gateway/resources"
)

// deleting reports whether the VM itself is going, rather than moving.
func (p *pass) deleting() bool { return !chain.Running(p.config) }

// leaving reports whether the VM has to leave its host: it is deleted, it is moved, or its network goes. Who does not use a
// network does not leave with one.
func (p *pass) leaving() bool {
	return p.deleting() ||
		p.placement != nil && !chain.Running(p.placement) ||
		p.network != nil && !chain.Running(p.network) && len(p.spec.Interfaces) > 0
}

// leave takes the domain off its host and lets go of what the next in the chain wait for, in the order: network,
// placement, and for a VM that is deleted, the VM.
func (p *pass) leave(ctx context.Context) error {
	if !p.deleting() {
		p.condition(resources.ConditionPlaced, resources.ConditionFalse, resources.ReasonMoving, "")

		if ok, err := p.holdConfig(ctx); err != nil || !ok {
			return err
		}
	}

	// After a restore the domain is looked for first.
	if chain.Running(p.placement) && p.host() == "" && p.placement.TypedSpec().Former != "" {
		p.converged(resources.ConditionFalse, resources.ReasonWaiting, p.placement.TypedSpec().Message)

		return nil
	}

	// Without our finalizer on the placement nothing was ever done on its host.
	if chain.Has(p.placement, finalizer) && p.host() != "" {
		if gone, err := p.leaveHost(ctx); err != nil || !gone {
			return err
		}
	}

	if chain.Has(p.network, finalizer) {
		if err := chain.Release(ctx, p.r, p.network.Metadata(), finalizer); err != nil {
			return err
		}
	}

	if chain.Has(p.placement, finalizer) {
		if err := chain.Release(ctx, p.r, p.placement.Metadata(), finalizer); err != nil {
			return err
		}
	}

	if p.deleting() {
		return p.bury(ctx)
	}

	p.forgetHost()
	p.converged(resources.ConditionFalse, resources.ReasonMoving, "")

	return nil
}

// leaveHost takes the domain off the host, or leaves it behind where that was given up.
func (p *pass) leaveHost(ctx context.Context) (gone bool, err error) {
	lost, err := p.givenUp(ctx)
	if err != nil {
		return false, err
	}

	if lost {
		return true, p.leaveBehind(ctx)
	}

	return p.removeDomain(ctx)
}

// removeDomain stops and undefines the domain, and removes the volumes of a VM that is deleted. It reports whether all is
// gone; otherwise the pass waits. A domain that is not ours stays.
func (p *pass) removeDomain(ctx context.Context) (bool, error) {
	if next, err := p.connect(ctx); err != nil || !next {
		return false, err
	}

	found, err := p.find(ctx)
	if err != nil {
		return false, err
	}

	if found != nil && !p.isOurs(found) {
		found = nil
	}

	p.see(found)

	if next, err := p.checkHold(ctx); err != nil || !next {
		return false, err
	}

	reason := resources.ReasonMoving
	if p.deleting() {
		reason = resources.ReasonDeleting
	}

	if p.domain != nil {
		off, err := p.stop(ctx, reason, "stopping the guest")
		if err != nil || !off {
			return false, err
		}
	}

	if p.domain != nil {
		uuid := p.uuid()
		if err := p.act(ctx, "undefine", func() (bool, error) { return always(p.driver.UndefineDomain(ctx, uuid)) }); err != nil {
			return false, err
		}

		p.see(nil)
	}

	if err := p.removeSeeds(ctx, ""); err != nil {
		return false, err
	}

	if !p.deleting() {
		return true, nil
	}

	return true, p.removeVolumes(ctx)
}

// removeVolumes removes the volumes that the document wants removed.
func (p *pass) removeVolumes(ctx context.Context) error {
	for i := range p.spec.Disks {
		d := &p.spec.Disks[i]
		if !isVolume(d) || d.OnDelete != resources.OnDeleteRemove || p.status.AdoptedDisks[d.Name] != "" {
			continue
		}

		if err := p.removeVolume(ctx, volumeName(p.id, d.Name)); err != nil {
			return err
		}
	}

	return nil
}

// removeVolume removes a volume; one of this name that is not ours stays.
func (p *pass) removeVolume(ctx context.Context, name string) error {
	err := p.act(ctx, "remove volume "+name, func() (bool, error) { return always(p.driver.RemoveVolume(ctx, name)) })
	if errors.Is(err, hypervisor.ErrForeign) {
		p.logger.Warn("a volume of this name is not ours and stays", zap.String("volume", name))

		return nil
	}

	return err
}

// leftBehind names what stays on the host: every volume that was made and is not removed with the VM, also of a disk that is no
// longer in the document.
func (p *pass) leftBehind() []string {
	left := slices.Clone(p.status.LeftBehind)

	for _, name := range p.status.DisksMade {
		removed := slices.ContainsFunc(p.spec.Disks, func(d resources.Disk) bool {
			return d.Name == name && isVolume(&d) && d.OnDelete == resources.OnDeleteRemove
		})

		// One that was left behind with a host that was given up was never made on another.
		volume := fmt.Sprintf("volume %s on host ", volumeName(p.id, name))
		elsewhere := slices.ContainsFunc(left, func(l string) bool { return strings.HasPrefix(l, volume) })

		if !removed && !elsewhere {
			left = append(left, volume+p.status.Host)
		}
	}

	return append(left, p.adoptedLeft()...)
}

// bury writes what the last message needs, takes the status away and lets go of the VM. Each can be repeated.
func (p *pass) bury(ctx context.Context) error {
	p.silent = true

	if p.current != nil {
		if err := p.writeTombstone(ctx); err != nil {
			return err
		}

		// Not torn down first: that would be one more version of the status, with the tombstone's number.
		if err := p.r.Destroy(ctx, p.current.Metadata()); err != nil && !state.IsNotFoundError(err) {
			return fmt.Errorf("error destroying the status of VM %q: %w", p.id, err)
		}
	}

	p.c.presses.forget(p.id)
	p.c.insistence.forget(p.id)
	p.c.resumes.forget(p.id)
	p.c.metrics.vms.forget(p.id)

	if !chain.Has(p.config, finalizer) {
		return nil
	}

	return p.releaseConfig(ctx)
}

// writeTombstone writes what the last message says. It is the same each time: the status may still be there when the message was
// sent already and the tombstone is gone, and one number has one content.
func (p *pass) writeTombstone(ctx context.Context) error {
	uid := orElse(p.status.UID, p.id)
	cause := orElse(orElse(resources.CauseOf(p.config.Metadata()), p.current.TypedSpec().Cause), causeResync)
	tombstone := resources.NewTombstone(uid)
	*tombstone.TypedSpec() = resources.TombstoneSpec{
		Kind: "VM", Name: p.id, UID: uid, Number: p.current.Metadata().Version().Value() + 1,
		Host: p.status.Host, Cause: cause, Time: p.current.Metadata().Updated().UTC(), LeftBehind: p.leftBehind(),
	}
	resources.SetCause(tombstone.Metadata(), cause)

	// The sink destroys it, so it has no owner.
	if err := p.r.Create(ctx, tombstone, controller.WithCreateNoOwner()); err != nil && !state.IsConflictError(err) {
		return fmt.Errorf("error writing the tombstone of VM %q: %w", p.id, err)
	}

	return nil
}

// forgetHost clears what is only true on the host that the VM left. Its disks stay known: they are not made again, empty,
// elsewhere.
func (p *pass) forgetHost() {
	p.status.State, p.status.LastKnown = resources.StateMissing, time.Time{}
	p.status.Host, p.status.DomainUUID = "", ""
	p.status.Addresses, p.status.RestartRequired = nil, nil
	p.status.Started, p.status.StopRequested = time.Time{}, time.Time{}
	p.status.Crashes = 0
}
