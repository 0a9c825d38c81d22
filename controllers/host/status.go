package host

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/controllers/chain"
	"gateway/hypervisor"
	"gateway/resources"
)

// writeStatus writes what is known of the host, if it is something else than before. surveyed is false while the host has
// not said which domains it has.
func (c *Controller) writeStatus(ctx context.Context, r controller.QRuntime, host *resources.Host, connection *hypervisor.ConnectionStatus) (surveyed bool, err error) {
	id := host.Metadata().ID()

	current, err := chain.Get[*resources.HostStatus](ctx, r, resources.NewHostStatus(id).Metadata())
	if err != nil {
		return false, err
	}

	status := *resources.NewHostStatus(id).TypedSpec()
	if current != nil {
		status = current.TypedSpec().DeepCopy()
	}

	c.describe(&status, host, connection)

	if status.Drain, err = c.drainStatus(ctx, r, host); err != nil {
		return false, err
	}

	// The connection is news that does not wait for the list of domains.
	if err := c.put(ctx, r, host, current, status, connection); err != nil || !connection.Connected {
		return false, err
	}

	next := status.DeepCopy()
	if surveyed, err = c.survey(ctx, r, host, &next); err != nil || reflect.DeepEqual(next, status) {
		return surveyed, err
	}

	return surveyed, c.put(ctx, r, host, nil, next, connection)
}

// put writes the status, unless it is the current one.
func (c *Controller) put(ctx context.Context, r controller.QRuntime, host *resources.Host, current *resources.HostStatus, status resources.HostStatusSpec, connection *hypervisor.ConnectionStatus) error {
	if current != nil && reflect.DeepEqual(status, *current.TypedSpec()) {
		return nil
	}

	id := host.Metadata().ID()

	err := r.Modify(ctx, resources.NewHostStatus(id), func(res resource.Resource) error {
		s, ok := res.(*resources.HostStatus)
		if !ok {
			return fmt.Errorf("the status of host %q has the Go type %T", id, res)
		}

		*s.TypedSpec() = status
		resources.SetCause(s.Metadata(), resources.CauseOf(host.Metadata()))

		return nil
	})
	if err != nil {
		return fmt.Errorf("error writing the status of host %q: %w", id, err)
	}

	if connection.Connected {
		c.told(id, connection.Generation)
	}

	return nil
}

// describe brings the status up to date. What a host said of itself stays while it is away.
func (c *Controller) describe(s *resources.HostStatusSpec, host *resources.Host, connection *hypervisor.ConnectionStatus) {
	s.UID = resources.UIDOf(host.Metadata())
	s.ObservedRevision = resources.RevisionOf(host.Metadata())
	s.Draining = host.TypedSpec().Drain

	if connection.Connected {
		info := &connection.Info
		s.Driver, s.Version, s.Arch, s.KVM = info.Driver, info.Version, info.Arch, info.KVM
		s.Capacity = info.Capacity

		if c.isNew(host.Metadata().ID(), connection.Generation) {
			s.Generation++
		}
	}

	s.Capacity = capacity(host.TypedSpec().Capacity, s.Capacity)

	// After a start of the gateway the host is as it was until the first attempt to connect to it fails: otherwise every
	// restart would make all VMs unknown for a moment.
	if connecting := connection.Generation == 0 && connection.LastError == ""; connecting && s.Connected {
		return
	}

	s.Connected, s.LastError = connection.Connected, connection.LastError
	s.RetryAfter = resources.Duration(connection.RetryAfter)
	s.Conditions = resources.SetCondition(s.Conditions, condition(connection), time.Now().UTC().Round(0))
}

// condition is what the host's one condition says.
func condition(connection *hypervisor.ConnectionStatus) resources.Condition {
	c := resources.Condition{
		Type: resources.ConditionConnected, Status: resources.ConditionFalse,
		Reason: resources.ReasonHostUnreachable, Message: connection.LastError,
	}

	switch {
	case connection.Connected:
		c.Status, c.Reason, c.Message = resources.ConditionTrue, resources.ReasonHostConnected, ""
	case connection.LastError == "":
		c.Reason = resources.ReasonHostConnecting
	}

	return c
}

// capacity is what the document says, and what the hypervisor reports where it says nothing.
func capacity(declared, reported resources.Capacity) resources.Capacity {
	return resources.Capacity{
		CPUs:   cmp.Or(declared.CPUs, reported.CPUs),
		Memory: cmp.Or(declared.Memory, reported.Memory),
		Disk:   cmp.Or(declared.Disk, reported.Disk),
	}
}

// isNew reports whether no HostStatus tells of this connection yet.
func (c *Controller) isNew(host resource.ID, generation int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	known, ok := c.generations[host]

	return !ok || known != generation
}

// told notes that the HostStatus tells of this connection.
func (c *Controller) told(host resource.ID, generation int64) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.generations[host] = generation
}

func (c *Controller) forget(host resource.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()

	delete(c.generations, host)
}
