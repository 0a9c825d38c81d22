package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cosi-project/runtime/pkg/state"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/hypervisor"
	"gateway/resources"
)

// tearDown takes the image's files off the hosts, once no VM uses it any more, and lets go of it. Files that disks start from
// stay: a disk that is kept would be worth nothing without.
func (p *pass) tearDown(ctx context.Context) error {
	if !chain.Has(p.image, finalizer) {
		return nil
	}

	for _, j := range p.c.jobs.of(p.id()) {
		if !j.ended() && !j.removal {
			j.cancel()
			p.poll(j)
		}
	}

	if used := slices.DeleteFunc(slices.Clone(*p.image.Metadata().Finalizers()), func(f string) bool { return f == finalizer }); len(used) > 0 {
		if err := p.write(ctx, p.entries(), p.leaving(resources.ReasonInUse, "VMs use it: it is removed when they are gone")); err != nil {
			return err
		}

		return p.end()
	}

	var waiting []string

	for _, e := range p.entries() {
		if why := p.clear(e.Host); why != "" {
			waiting = append(waiting, fmt.Sprintf("host %s: %s", e.Host, why))
		}
	}

	if len(waiting) > 0 || p.requeue > 0 {
		if err := p.write(ctx, p.entries(), p.leaving(resources.ReasonDeleting, strings.Join(waiting, "; "))); err != nil {
			return err
		}

		return p.end()
	}

	return p.bury(ctx)
}

func (p *pass) entries() []resources.ImageOnHost {
	if p.current == nil {
		return nil
	}

	return slices.Clone(p.current.TypedSpec().Hosts)
}

func (p *pass) leaving(reason, message string) resources.Condition {
	return resources.Condition{Type: resources.ConditionReady, Status: resources.ConditionFalse, Reason: reason, Message: message}
}

// clear takes the image's files off a host. It returns what it waits for; empty: they are gone, or stay there since the host
// is not declared any more, or is being taken away while nobody can reach it.
func (p *pass) clear(host string) (waiting string) {
	at := slices.IndexFunc(p.hosts, func(h *resources.Host) bool { return h.Metadata().ID() == host })
	if at < 0 {
		return ""
	}

	k := key{p.id(), host}
	j := p.c.jobs.find(k)

	switch {
	case j == nil:
	case p.clearing(j):
		return "removing its file"
	case j.removal && j.outcome.err == nil:
		return "" // it stays noted until all hosts are done
	case j.removal:
		p.c.jobs.drop(j)
		p.after(unreachableRetry)

		if !errors.Is(j.outcome.err, hypervisor.ErrUnreachable) {
			p.logger.Warn("the image's file is not removed", zap.String("host", host), zap.Error(j.outcome.err))
		}

		return j.outcome.err.Error()
	}

	if s := p.connections[host]; s == nil || !s.Connected {
		// A host that is taken away waits for us: it is not waited for.
		if !chain.Running(p.hosts[at]) {
			return ""
		}

		return "it is not connected"
	}

	next := &job{key: k, removal: true}
	p.c.jobs.begin(next, p.c.work)
	p.poll(next)

	return "removing its file"
}

// clearing reports whether a job on a host that is to be cleared is still under way; one that brings the image is ended.
func (p *pass) clearing(j *job) bool {
	if j.ended() {
		return false
	}

	if !j.removal {
		j.cancel()
	}

	p.poll(j)

	return true
}

// bury takes the status away and lets go of the image. Each can be repeated.
func (p *pass) bury(ctx context.Context) error {
	for _, j := range p.c.jobs.of(p.id()) {
		if len(j.outcome.kept) > 0 {
			p.logger.Info("files of the image stay, since disks start from them", zap.String("host", j.host), zap.Strings("files", j.outcome.kept))
		}

		p.c.jobs.drop(j)
	}

	p.c.holds.Lock()
	defer p.c.holds.Unlock()

	if p.current != nil {
		if err := p.r.Destroy(ctx, p.current.Metadata()); err != nil && !state.IsNotFoundError(err) {
			return fmt.Errorf("error destroying the status of image %q: %w", p.id(), err)
		}
	}

	p.c.jobs.forget(p.id())

	if err := p.c.letGo(ctx, p.r, p.hosts); err != nil {
		return err
	}

	return chain.Release(ctx, p.r, p.image.Metadata(), finalizer)
}
