package vm

import (
	"context"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"gateway/resources"
	"gateway/store"
)

// givenUp reports whether nothing is taken apart on the VM's host: a person gave up the host, or, while the host can't be
// reached, what the VM has there. Nothing but such a word leads here.
func (p *pass) givenUp(ctx context.Context) (bool, error) {
	if p.host() == "" {
		return false, nil
	}

	host, err := get[*resources.Host](ctx, p, resources.NewHost(p.host()).Metadata())
	if err != nil {
		return false, err
	}

	if host != nil && resources.IsAbandoned(host.Metadata()) {
		return true, nil
	}

	connected := p.hostStatus != nil && p.hostStatus.TypedSpec().Connected

	return p.deleting() && resources.IsAbandoned(p.config.Metadata()) && !connected, nil
}

// leaveBehind notes, durably and once, what of the VM stays on a host that is given up.
func (p *pass) leaveBehind(ctx context.Context) error {
	left := []string{fmt.Sprintf("domain %s (%s) on host %s", p.spec.DomainName(p.id), p.uuid(), p.host())}
	for _, disk := range p.status.DisksMade {
		left = append(left, fmt.Sprintf("volume %s on host %s", volumeName(p.id, disk), p.host()))
	}

	for _, seed := range p.status.Seeds {
		left = append(left, fmt.Sprintf("volume %s on host %s", seed, p.host()))
	}

	if slices.Contains(p.status.LeftBehind, left[0]) {
		return nil
	}

	p.status.LeftBehind = append(slices.Clone(p.status.LeftBehind), left...)
	p.status.Seeds = nil
	p.unknown("host " + p.host() + " was given up")

	if err := p.flush(ctx); err != nil {
		return err
	}

	p.logger.Warn("what the VM has on its host is left behind", zap.String("host", p.host()), zap.Strings("left", left),
		zap.String("cause", p.cause()))

	for _, what := range left {
		if err := p.c.options.Journal.Append(store.Entry{
			Class: store.ClassForced, Source: resources.ControllerVM, Name: p.host(), EventID: p.cause(),
			Object: "VM/" + p.id, Message: "left behind: " + what,
		}); err != nil {
			return fmt.Errorf("error noting what VM %q leaves behind: %w", p.id, err)
		}
	}

	return nil
}

// wayOut says, of a VM that waits for its host to be deleted, what a person can do who knows that the host is gone for good.
func (p *pass) wayOut() string {
	if !p.deleting() {
		return ""
	}

	return fmt.Sprintf(", so nothing is taken apart there; if it is gone for good: gateway delete vm %s --force", p.id)
}
