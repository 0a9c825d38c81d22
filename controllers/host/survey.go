package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/controllers/chain"
	"gateway/hypervisor"
	"gateway/resources"
)

const (
	// patience is how long a worker waits for a host's list of domains. A real host lists 10,000 in about 0.4 s.
	patience = 500 * time.Millisecond
	// surveyAgain is when a host looks again that has not answered yet, or did not.
	surveyAgain = 2 * time.Second
	// surveyNew is the reason to look at a host for the first time.
	surveyNew = "new"
)

// census is what a host answered: its domains with our mark.
type census struct {
	reason  string
	domains []hypervisor.Domain
}

// survey looks for domains of ours whose VMs are not on the host, and takes them into the status. There are some only after
// something was given up by force, so a host is asked when it is new, when that happened, and while it has any: the list of
// a large host is dear. done is false while the host has not answered.
func (c *Controller) survey(ctx context.Context, r controller.QRuntime, host *resources.Host, s *resources.HostStatusSpec) (done bool, err error) {
	id, reason := host.Metadata().ID(), cmp.Or(resources.SurveyOf(host.Metadata()), surveyNew)
	if s.Surveyed == reason && len(s.Leftovers) == 0 {
		return true, nil
	}

	flight := c.surveys.Begin(id, func(ctx context.Context) error { return c.ask(ctx, id, reason) })

	err = flight.Wait(ctx)

	switch {
	case errors.Is(err, chain.ErrUnderWay), errors.Is(err, hypervisor.ErrUnreachable):
		return false, nil
	case err != nil:
		return false, err
	}

	c.mu.Lock()
	answer, ok := c.answers[id]
	delete(c.answers, id)
	c.mu.Unlock()

	if !ok || answer.reason != reason {
		return false, nil
	}

	s.Surveyed = reason
	s.Leftovers, err = leftovers(ctx, r, id, answer.domains)

	return true, err
}

// ask asks a host for all its domains and keeps those of ours.
func (c *Controller) ask(ctx context.Context, host, reason string) error {
	driver, err := c.pool.Driver(host)
	if err != nil {
		return fmt.Errorf("error finding the connection to host %q: %w", host, err)
	}

	domains, err := driver.Domains(ctx)
	if err != nil {
		return fmt.Errorf("error listing the domains of host %q: %w", host, err)
	}

	domains = slices.DeleteFunc(domains, func(d hypervisor.Domain) bool { return d.Gateway != c.gateway || d.VM == "" })

	c.mu.Lock()
	defer c.mu.Unlock()

	c.answers[host] = census{reason, domains}

	return nil
}

// leftovers names the domains whose VMs are placed elsewhere, or do not exist. One that has no place yet is about to be
// found here.
func leftovers(ctx context.Context, r controller.QRuntime, host resource.ID, domains []hypervisor.Domain) (left []string, err error) {
	for _, d := range domains {
		placement, err := chain.Get[*resources.VMPlacement](ctx, r, resources.NewVMPlacement(d.VM).Metadata())
		if err != nil {
			return nil, err
		}

		switch {
		case placement == nil:
			left = append(left, fmt.Sprintf("%s (%s, %s): there is no VM %s", d.Name, d.UUID, d.State, d.VM))
		case placement.TypedSpec().Host != "" && placement.TypedSpec().Host != host:
			left = append(left, fmt.Sprintf("%s (%s, %s): VM %s is on host %s", d.Name, d.UUID, d.State, d.VM, placement.TypedSpec().Host))
		}
	}

	slices.Sort(left)

	if len(left) > resources.MaxListed {
		left = append(left[:resources.MaxListed:resources.MaxListed], fmt.Sprintf("and %d more", len(left)-resources.MaxListed))
	}

	return left, nil
}
