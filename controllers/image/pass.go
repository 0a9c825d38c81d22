package image

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/hypervisor"
	"gateway/resources"
)

const (
	// A job that runs is looked at after a quarter of its age, within these bounds: nothing tells of its end.
	pollMin = 20 * time.Millisecond
	pollMax = time.Second
	// shownEvery is how often the progress of a transfer is written to the status.
	shownEvery = 2 * time.Second
	// Attempts that fail are repeated after 10 s, 20 s, … up to 10 min, each up to a fifth more.
	firstRetry = 10 * time.Second
	maxRetry   = 10 * time.Minute
	// unreachableRetry is how often a host that does not answer is tried, though its HostStatus says that it is connected.
	unreachableRetry = 5 * time.Second
)

// pass is one look at one image on all hosts. One goroutine owns it.
type pass struct {
	c      *Controller
	r      controller.QRuntime
	logger *zap.Logger
	image  *resources.Image
	now    time.Time

	current *resources.ImageStatus // nil while there is none
	hosts   []*resources.Host      // by name
	// connections are the statuses of hosts by name.
	connections map[string]*resources.HostStatusSpec
	// asked reports whether somebody wants the image to be tried now, whatever the time of the next try is.
	asked bool
	// requeue is the shortest of the times after which to look again; 0: none.
	requeue time.Duration
}

func (p *pass) id() string { return p.image.Metadata().ID() }

// read reads everything that the pass depends on.
func (p *pass) read(ctx context.Context) (err error) {
	if p.current, err = chain.Get[*resources.ImageStatus](ctx, p.r, resources.NewImageStatus(p.id()).Metadata()); err != nil {
		return err
	}

	if p.hosts, err = list[*resources.Host](ctx, p.r, resources.NewHost("").Metadata()); err != nil {
		return err
	}

	slices.SortFunc(p.hosts, func(a, b *resources.Host) int { return strings.Compare(a.Metadata().ID(), b.Metadata().ID()) })

	statuses, err := list[*resources.HostStatus](ctx, p.r, resources.NewHostStatus("").Metadata())
	p.connections = map[string]*resources.HostStatusSpec{}

	for _, s := range statuses {
		p.connections[s.Metadata().ID()] = s.TypedSpec()
	}

	return err
}

// after asks for another look after d at the latest.
func (p *pass) after(d time.Duration) {
	if d = max(d, pollMin); p.requeue == 0 || d < p.requeue {
		p.requeue = d
	}
}

// poll asks for another look at a job.
func (p *pass) poll(j *job) { p.after(min(time.Since(j.begun)/4, pollMax)) }

// end returns what COSI is told at the end of a pass.
func (p *pass) end() error {
	if p.requeue > 0 {
		return controller.NewRequeueInterval(p.requeue)
	}

	return nil
}

// bring brings the image to the hosts that are to have it. What it starts is in the status first, so that it is taken away
// again whatever happens.
func (p *pass) bring(ctx context.Context) error {
	p.c.jobs.know(p.id())
	p.asked = p.c.jobs.wasAsked(p.id())

	// Between a hold and the status that says why nobody else may let go.
	p.c.holds.Lock()
	defer p.c.holds.Unlock()

	var (
		entries []resources.ImageOnHost
		begin   []*job
	)

	for _, h := range p.hosts {
		entry, next, err := p.atHost(ctx, h)
		if err != nil {
			return err
		}

		if entry != nil {
			entries = append(entries, *entry)
		}

		if next != nil {
			begin = append(begin, next)
		}
	}

	if err := p.write(ctx, entries, p.ready(entries)); err != nil {
		return err
	}

	for _, j := range begin {
		p.c.jobs.begin(j, p.c.work)
		p.poll(j)
	}

	if err := p.c.letGo(ctx, p.r, p.hosts); err != nil {
		return err
	}

	return p.end()
}

// atHost returns what is to be said of the image on a host, nil: nothing, and the job to begin for it, nil: none.
func (p *pass) atHost(ctx context.Context, h *resources.Host) (*resources.ImageOnHost, *job, error) {
	name := h.Metadata().ID()
	known := p.known(name)

	if !chain.Running(h) {
		if known != nil && p.staysAt(h) {
			return known, nil, nil
		}

		return nil, nil, nil
	}

	// It takes VMs, or has the image already.
	switch s := h.TypedSpec(); {
	case known != nil:
	case resources.IsLeaving(h.Metadata()):
		return nil, nil, nil
	case !s.Schedulable || s.Drain:
		return nil, p.tidy(name), nil
	}

	if ok, err := chain.Hold[*resources.Host](ctx, p.r, h.Metadata(), finalizer); err != nil || !ok {
		return known, nil, err
	}

	entry, next := p.onHost(name)

	return &entry, next, nil
}

// known returns what the status says of a host; nil: nothing.
func (p *pass) known(host string) *resources.ImageOnHost {
	if p.current == nil {
		return nil
	}

	hosts := p.current.TypedSpec().Hosts
	if at := slices.IndexFunc(hosts, func(e resources.ImageOnHost) bool { return e.Host == host }); at >= 0 {
		return &hosts[at]
	}

	return nil
}

// onHost returns what is to be said of the image on a host, and the job to begin for it; nil: none.
func (p *pass) onHost(host string) (resources.ImageOnHost, *job) {
	spec := p.image.TypedSpec()
	entry := resources.ImageOnHost{Host: host, Reason: resources.ReasonImageFetching}

	if was := p.known(host); was != nil && p.isAbout(was) && (was.Ready || p.unchanged()) {
		entry = *was
	}

	connection := p.connections[host]
	generation := int64(0)

	if connection != nil {
		generation = connection.Generation
	}

	if j := p.c.jobs.find(key{p.id(), host}); j != nil {
		switch {
		case !j.ended():
			p.progress(&entry, j)

			return entry, nil
		case j.spec == *spec && !j.removal:
			p.c.jobs.take(j, generation)
			p.take(&entry, &j.outcome)

			return entry, nil
		}

		p.c.jobs.take(j, generation)
	}

	switch {
	case connection == nil || !connection.Connected:
		if !entry.Ready {
			entry.Reason, entry.Message = resources.ReasonHostUnreachable, "the host is not connected"
		}

		return entry, nil
	case p.c.jobs.looked(key{p.id(), host}, generation) && entry.Ready:
		return entry, nil
	case pauseOf(&entry, p.now) > 0 && !p.asked:
		p.after(pauseOf(&entry, p.now))

		return entry, nil
	}

	return entry, &job{key: key{p.id(), host}, spec: *spec, was: entry}
}

// pauseOf returns for how long a host is left alone after a failure. A time that is further off than any pause is long was noted
// before the clock was set back: it is over.
func pauseOf(e *resources.ImageOnHost, now time.Time) time.Duration {
	left := e.NextTry.Sub(now)
	if left > maxRetry+maxRetry/5 {
		return 0
	}

	return max(left, 0)
}

// isAbout reports whether an entry of the status is about what is declared now.
func (p *pass) isAbout(e *resources.ImageOnHost) bool {
	spec := p.image.TypedSpec()
	if !e.Ready {
		return true
	}

	if isPath(spec) {
		return e.Path == spec.Source && e.SHA256 == spec.SHA256
	}

	return e.SHA256 == spec.SHA256 && e.Path != ""
}

// unchanged reports whether the image is as it was when the status was written: another one is tried at once.
func (p *pass) unchanged() bool {
	return p.current.TypedSpec().ObservedRevision == resources.RevisionOf(p.image.Metadata())
}

// progress shows how far a job is. One for something else than what is declared now is ended.
func (p *pass) progress(entry *resources.ImageOnHost, j *job) {
	p.poll(j)

	if j.spec != *p.image.TypedSpec() || j.removal {
		j.cancel()

		return
	}

	if entry.Ready {
		return // it is looked at again
	}

	fetched := j.fetched.Load()
	entry.Reason, entry.Message, entry.NextTry = resources.ReasonImageFetching, "", time.Time{}

	if fetched < 0 {
		entry.Message = "waiting for other images"

		return
	}

	entry.Total = resources.Size(j.total.Load())
	entry.VirtualSize = resources.Size(j.virtual.Load())

	if since := time.Since(j.begun); since.Truncate(shownEvery) != j.shown {
		j.shown = since.Truncate(shownEvery)
		entry.Bytes = resources.Size(fetched)
	}
}

// take takes the outcome of a job into what is said of the host.
func (p *pass) take(entry *resources.ImageOnHost, o *outcome) {
	host := entry.Host

	if o.err == nil {
		*entry = o.file
		entry.Host, entry.Ready, entry.Reason = host, true, resources.ReasonImageReady

		return
	}

	// A file that was seen stays known while its host does not answer.
	if errors.Is(o.err, hypervisor.ErrUnreachable) || errors.Is(o.err, context.Canceled) {
		if !entry.Ready {
			entry.Reason, entry.Message, entry.Bytes = resources.ReasonHostUnreachable, o.err.Error(), 0
		}

		p.after(unreachableRetry)

		return
	}

	failures := entry.Failures + 1
	wait := firstRetry << min(failures-1, 6)
	wait = min(wait, maxRetry)
	wait += rand.N(wait/5 + 1) //nolint:gosec // no secret

	*entry = resources.ImageOnHost{
		Host: host, Reason: reasonOf(o.err), Message: o.err.Error(), Failures: failures,
		NextTry: p.now.Add(wait).Truncate(time.Second),
	}

	p.logger.Warn("the image is not on the host", zap.String("host", host), zap.Time("next try", entry.NextTry), zap.Error(o.err))
	p.after(entry.NextTry.Sub(p.now))
}

// reasonOf is the reason of a failure.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, errInvalid):
		return resources.ReasonImageInvalid
	case errors.Is(err, errSource):
		return resources.ReasonImageMissing
	case errors.Is(err, hypervisor.ErrUnsupported):
		return resources.ReasonNotSupported
	default:
		return resources.ReasonHypervisorFailed
	}
}

// ready is the image's one condition.
func (p *pass) ready(entries []resources.ImageOnHost) resources.Condition {
	condition := resources.Condition{Type: resources.ConditionReady, Status: resources.ConditionFalse}
	ready, away := 0, 0

	for i := range entries {
		e := &entries[i]

		switch {
		case e.Ready:
			ready++
		case e.Reason == resources.ReasonHostUnreachable:
			away++
		case condition.Reason == "" || condition.Reason == resources.ReasonImageFetching:
			condition.Reason = e.Reason
			condition.Message = strings.TrimSuffix(fmt.Sprintf("host %s: %s", e.Host, e.Why()), ": ")
		}
	}

	switch {
	case condition.Reason != "":
	case ready > 0:
		condition.Status, condition.Reason = resources.ConditionTrue, resources.ReasonImageReady
		if away > 0 {
			condition.Message = fmt.Sprintf("%d hosts are not connected", away)
		}
	case away > 0:
		condition.Reason, condition.Message = resources.ReasonHostUnreachable, "no host that takes VMs is connected"
	default:
		condition.Reason, condition.Message = resources.ReasonWaiting, "there is no host that takes VMs"
	}

	return condition
}
