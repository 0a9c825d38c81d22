package vm

import (
	"errors"
	"math/rand/v2"
	"time"

	"gateway/hypervisor"
	"gateway/resources"
)

const (
	// busyRetry is how soon to try again what met another operation.
	busyRetry = 2 * time.Second
	// refusedRetry is how often to try again what the hypervisor refuses: somebody may have changed the host.
	refusedRetry = 60 * time.Second
	// unreachableRetry is how soon to try again a host that does not answer though it is connected. The HostStatus wakes the
	// VM too.
	unreachableRetry = 5 * time.Second
)

// judge takes the error of a pass into the status. What only has to wait is no error any more.
func (p *pass) judge(err error) error {
	if err == nil {
		if !p.silent {
			p.status.LastError = ""
		}

		return nil
	}

	if after, crowded := hypervisor.IsCrowded(err); crowded {
		p.crowded(err)
		p.after(after)

		return nil
	}

	switch {
	case errors.Is(err, hypervisor.ErrUnreachable):
		p.unknown(err.Error())
		p.after(unreachableRetry + jitter(unreachableRetry))
	case errors.Is(err, hypervisor.ErrBusy):
		p.failed(resources.ReasonBusy, err)
		p.after(busyRetry)
	case errors.Is(err, hypervisor.ErrForeign):
		p.failed(resources.ReasonNameTaken, err)
		p.after(nameTakenRetry)
	case errors.Is(err, hypervisor.ErrUnsupported):
		p.failed(resources.ReasonNotSupported, err)
		p.after(refusedRetry)
	case errors.Is(err, hypervisor.ErrInvalid):
		p.failed(resources.ReasonHypervisorFailed, err)
		p.after(refusedRetry)
	default:
		p.failed(resources.ReasonHypervisorFailed, err)

		return err // COSI backs off
	}

	return nil
}

// jitter is a time of up to most, by chance: many VMs that wait for one thing don't come back all at once.
func jitter(most time.Duration) time.Duration { return rand.N(most) } //nolint:gosec // no secret

func (p *pass) failed(reason string, err error) {
	p.status.LastError = err.Error()
	p.converged(resources.ConditionFalse, reason, err.Error())
}

// crowded says that there is something to do that has to wait for the host. Else nothing changed: that the VM was to be looked at again
// is no news.
func (p *pass) crowded(err error) {
	if p.status.ObservedRevision != p.revision() || p.acted || p.leaving() {
		p.converged(resources.ConditionFalse, resources.ReasonBusy, err.Error())
	}
}
