package vm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gateway/hypervisor"
	"gateway/resources"
)

const (
	// nameTakenRetry is how often a foreign domain is looked at: its end is an event as well.
	nameTakenRetry = 60 * time.Second
	// adoptRetry is how often a domain to adopt is looked for.
	adoptRetry = 60 * time.Second
)

// connect finds the connection to the host. Without one nothing is known, and nothing is done; the HostStatus wakes the VM.
func (p *pass) connect(context.Context) (bool, error) {
	p.status.Host = p.host()

	if p.hostStatus == nil || !p.hostStatus.TypedSpec().Connected {
		p.unknown("host " + p.host() + " is not connected" + p.wayOut())

		return false, nil
	}

	generation := p.hostStatus.TypedSpec().Generation
	if wait := p.c.breaker.wait(p.host(), generation, p.tick); wait > 0 {
		p.unknown("host " + p.host() + " does not answer")
		p.after(wait + jitter(wait))

		return false, nil
	}

	// Nobody knows yet that it does not answer; a worker that waited for it would be missed by the VMs of other hosts.
	if err := p.c.options.Pool.Admit(p.host()); err != nil {
		return false, err
	}

	driver, err := p.c.options.Pool.Driver(p.host())
	if errors.Is(err, hypervisor.ErrUnreachable) {
		// The HostStatus is about to say so too, or that the host is connected again: at a start, for all VMs of a host,
		// within moments. What was known is not thrown away before, unless there is something new to do.
		if p.current == nil || p.current.TypedSpec().ObservedRevision != p.revision() || p.leaving() {
			p.unknown(err.Error())
		}

		return false, nil
	}

	if err != nil {
		return false, fmt.Errorf("error finding the connection to host %q: %w", p.host(), err)
	}

	p.driver = driver

	return true, nil
}

// observe looks for the VM's domain and takes its state into the status. A domain of this name or UUID that is not ours is
// never touched.
func (p *pass) observe(ctx context.Context) (bool, error) {
	found, err := p.find(ctx)
	if err != nil {
		return false, err
	}

	switch {
	case found == nil:
		p.see(nil)
	case p.isOurs(found):
		p.see(found)
	case p.mayAdopt(found):
		p.see(found)
	default:
		p.see(nil)

		owner := "no gateway's mark"
		if found.Gateway != "" {
			owner = fmt.Sprintf("the mark of VM %s of gateway %s", found.VM, found.Gateway)
		}

		p.converged(resources.ConditionFalse, resources.ReasonNameTaken,
			fmt.Sprintf("domain %s (%s) on host %s carries %s", found.Name, found.UUID, p.host(), owner))
		p.after(nameTakenRetry)

		return false, nil
	}

	if p.domain == nil && p.spec.Adopt != nil && p.status.DomainUUID == "" {
		p.converged(resources.ConditionFalse, resources.ReasonWaiting,
			fmt.Sprintf("there is no domain %s to adopt on host %s", p.spec.DomainName(p.id), p.host()))
		p.after(adoptRetry)

		return false, nil
	}

	return true, nil
}

// find returns the domain that is the VM's, or that is in its way; nil: neither. Whether the host answered is noted.
func (p *pass) find(ctx context.Context) (*hypervisor.Domain, error) {
	found, err := p.lookUp(ctx)
	if errors.Is(err, hypervisor.ErrBusy) {
		return nil, err // it was not asked
	}

	p.c.breaker.answered(p.host(), p.hostStatus.TypedSpec().Generation, !errors.Is(err, hypervisor.ErrUnreachable), time.Now())

	return found, err
}

func (p *pass) lookUp(ctx context.Context) (*hypervisor.Domain, error) {
	for _, uuid := range p.uuids() {
		switch d, err := p.driver.Domain(ctx, uuid); {
		case err == nil:
			return &d, nil
		case !errors.Is(err, hypervisor.ErrNotFound):
			return nil, fmt.Errorf("error looking for domain %s on host %q: %w", uuid, p.host(), err)
		}
	}

	switch d, err := p.driver.DomainByName(ctx, p.spec.DomainName(p.id)); {
	case err == nil:
		return &d, nil
	case !errors.Is(err, hypervisor.ErrNotFound):
		return nil, fmt.Errorf("error looking for domain %q on host %q: %w", p.spec.DomainName(p.id), p.host(), err)
	}

	return nil, nil //nolint:nilnil // no domain is a state
}

// uuids are those under which the domain may be, the likeliest first.
func (p *pass) uuids() []string {
	own := hypervisor.DomainUUID(p.c.options.GatewayID, p.id)
	uuids := []string{own}

	if a := p.spec.Adopt; a != nil && a.UUID != "" && a.UUID != own {
		uuids = []string{a.UUID, own}
	}

	if known := p.status.DomainUUID; known != "" && known != uuids[0] {
		uuids = append([]string{known}, uuids...)
	}

	return uuids
}

// uuid is that of the domain: of the one that is there, or of the one to make.
func (p *pass) uuid() string {
	if p.domain != nil {
		return p.domain.UUID
	}

	return p.uuids()[0]
}

// isOurs reports whether the domain is this VM's.
func (p *pass) isOurs(d *hypervisor.Domain) bool {
	return d.Gateway == p.c.options.GatewayID && d.VM == p.id
}

// mayAdopt reports whether the VM's document takes over this domain, which carries nobody's mark, or that of a gateway
// that the document names.
func (p *pass) mayAdopt(d *hypervisor.Domain) bool {
	a := p.spec.Adopt

	return a != nil && (d.Gateway == "" || d.Gateway == a.Gateway && d.Gateway != p.c.options.GatewayID) && d.Name == p.spec.DomainName(p.id) && (a.UUID == "" || a.UUID == d.UUID)
}

// look reads the domain again after it was changed.
func (p *pass) look(ctx context.Context) error {
	switch d, err := p.driver.Domain(ctx, p.uuid()); {
	case err == nil:
		p.see(&d)
	case errors.Is(err, hypervisor.ErrNotFound):
		p.see(nil)
	default:
		return fmt.Errorf("error reading domain %s on host %q: %w", p.uuid(), p.host(), err)
	}

	return nil
}

// see takes what was observed into the status.
func (p *pass) see(d *hypervisor.Domain) {
	p.domain = d
	p.status.LastKnown = time.Time{}
	p.status.RestartRequired = nil

	if d == nil {
		p.status.State = resources.StateMissing
		p.status.Addresses = nil

		return
	}

	p.status.DomainUUID = d.UUID

	if len(d.Definition) > 0 && p.isOurs(d) {
		p.status.Definition = d.Definition
	}

	p.status.State = stateOf(d)
	if p.status.State == resources.StateCrashed && p.spec.Power == resources.PowerStopped {
		p.status.State = resources.StateStopped // it is to be off, and how its last run ended is over with that
	}

	if !isOff(d) && len(d.RestartRequired) > 0 {
		p.status.RestartRequired = d.RestartRequired
	}
}

// stateOf is the state as users see it.
func stateOf(d *hypervisor.Domain) string {
	if d.State == resources.StateStopped && d.Reason == reasonCrashed {
		return resources.StateCrashed
	}

	return d.State
}

// Words of hypervisors for why a domain is off.
const (
	reasonCrashed  = "crashed"
	reasonShutdown = "shutdown"
)

// isOff reports whether the domain does not run, not even paused.
func isOff(d *hypervisor.Domain) bool {
	return d.State == resources.StateStopped || d.State == resources.StateCrashed
}

// unknown says that nothing could be observed. What was known keeps its time.
func (p *pass) unknown(message string) {
	if p.status.State != resources.StateUnknown {
		p.status.State = resources.StateUnknown
		p.status.LastKnown = p.now
	}

	p.converged(resources.ConditionUnknown, resources.ReasonHostUnreachable, message)
}
