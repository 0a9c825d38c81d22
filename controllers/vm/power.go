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
	// settleRetry is how soon to look again at a domain that was just started or ended.
	settleRetry = time.Second
	// diskRetry is how often a lost volume is looked for: its return has no event.
	diskRetry = 60 * time.Second

	// The first crash is answered at once, the second after firstBackoff since the last start, each further one after
	// twice the time, up to maxBackoff: a guest that can't boot costs the host 12 boots an hour.
	firstBackoff = 10 * time.Second
	maxBackoff   = 5 * time.Minute
	// crashLoop is the number of crashes that is called a loop.
	crashLoop = 3
	// calm is how long a VM has to run until its crashes are forgotten.
	calm = 10 * time.Minute
)

// power brings the domain to the wanted state: running, paused or off.
func (p *pass) power(ctx context.Context) (bool, error) {
	if p.spec.Power == resources.PowerStopped {
		return p.beOff(ctx)
	}

	if p.restartWanted() {
		return p.restart(ctx)
	}

	switch {
	case isOff(p.domain):
		return p.beOn(ctx)
	case p.domain.State == resources.StateRunning && p.spec.Power == resources.PowerPaused:
		return p.domainStep(ctx, "pause", func() error { return p.driver.Pause(ctx, p.uuid()) })
	case p.domain.Passing():
		return true, nil // settle waits for its end
	case p.domain.State == resources.StatePaused && p.domain.Reason == hypervisor.ReasonIOError && p.spec.Power == resources.PowerRunning:
		return p.resumeFailed(ctx)
	case p.domain.State == resources.StatePaused && p.spec.Power == resources.PowerRunning:
		return p.resume(ctx)
	default: // as wanted, or between two states; settle tells which
		return true, nil
	}
}

// resume resumes a paused guest. One that can't go on has crashed, although it is not off: it is ended and started again, as rarely
// as any that crashes.
func (p *pass) resume(ctx context.Context) (bool, error) {
	next, err := p.domainStep(ctx, "resume", func() error { return p.driver.Resume(ctx, p.uuid()) })
	if !errors.Is(err, hypervisor.ErrBroken) {
		return next, err
	}

	if p.spec.OnCrash == resources.StayOff {
		p.converged(resources.ConditionFalse, resources.ReasonHypervisorFailed,
			fmt.Sprintf("%v; onCrash is stay-off: `gateway restart %s` starts it again", err, p.id))

		return false, nil
	}

	if wait := p.crashed(); wait > 0 {
		p.after(wait)

		return false, nil
	}

	p.answers = reasonGuestCrashed

	off, err := p.forceOff(ctx)
	if err != nil || !off {
		return false, err
	}

	return p.startAgain(ctx)
}

// hasPower reports whether the domain is in the wanted state, or rests where its document leaves it.
func (p *pass) hasPower() bool {
	if p.domain == nil {
		return false
	}

	switch p.spec.Power {
	case resources.PowerStopped:
		return isOff(p.domain)
	case resources.PowerPaused:
		return p.domain.State == resources.StatePaused || p.rests()
	default:
		return p.domain.State == resources.StateRunning || p.rests()
	}
}

// beOff stops the domain for good. What it did before is forgotten: its next start is a fresh one.
func (p *pass) beOff(ctx context.Context) (bool, error) {
	off, err := p.stop(ctx, resources.ReasonStopping, "")
	if err != nil || !off {
		return false, err
	}

	p.status.StopRequested, p.status.Started, p.status.Crashes = time.Time{}, time.Time{}, 0
	if p.restartWanted() {
		p.status.RestartID = p.override.TypedSpec().RestartID // there is nothing to restart
	}

	return true, nil
}

// restartWanted reports whether there is a request to restart the VM that was not carried out.
func (p *pass) restartWanted() bool {
	return p.override != nil && p.override.TypedSpec().RestartID != "" && p.override.TypedSpec().RestartID != p.status.RestartID
}

// restart stops the domain and starts it, once for each request: the request is noted as done, durably, between the two.
func (p *pass) restart(ctx context.Context) (bool, error) {
	off, err := p.stop(ctx, resources.ReasonStopping, "restarting")
	if err != nil || !off {
		return false, err
	}

	p.status.RestartID, p.status.Crashes = p.override.TypedSpec().RestartID, 0
	if err := p.flush(ctx); err != nil {
		return false, err
	}

	return p.start(ctx)
}

// beOn starts a domain that is off and should not be, unless its document leaves it off or it crashed too often.
func (p *pass) beOn(ctx context.Context) (bool, error) {
	if p.rests() {
		return true, nil
	}

	if !p.endedByItself() {
		return p.start(ctx)
	}

	if wait := p.crashed(); wait > 0 {
		p.after(wait)

		return false, nil
	}

	return p.startAgain(ctx)
}

// crashed returns how long a guest that ended by itself is not started again, and says so; 0: it is now.
func (p *pass) crashed() time.Duration {
	if p.now.Sub(p.status.Started) >= calm {
		p.status.Crashes = 0
	}

	wait := p.status.Started.Add(backoff(p.status.Crashes)).Sub(p.now)
	if wait > 0 {
		reason := resources.ReasonStarting
		if p.status.Crashes >= crashLoop {
			reason = resources.ReasonCrashLoop
		}

		p.converged(resources.ConditionFalse, reason, p.crashMessage())
	}

	return wait
}

// startAgain starts a guest that ended by itself, and counts that.
func (p *pass) startAgain(ctx context.Context) (bool, error) {
	switch {
	case p.answers != "":
	case stateOf(p.domain) == resources.StateCrashed:
		p.answers = reasonGuestCrashed
	default:
		p.answers = reasonGuestShutdown
	}

	next, err := p.start(ctx)
	if err == nil && p.blocked == nil {
		p.status.Crashes++
	}

	return next, err
}

// endedByItself reports whether the guest crashed or powered off, rather than being stopped: by us, or behind our back,
// which is mended at once.
func (p *pass) endedByItself() bool {
	if p.status.Started.IsZero() || !p.status.StopRequested.IsZero() {
		return false
	}

	return stateOf(p.domain) == resources.StateCrashed || p.domain.Reason == reasonShutdown
}

// rests reports whether the domain ended by itself and its document leaves it off then. A power command after the last
// start overrules that.
func (p *pass) rests() bool {
	if p.domain == nil || !isOff(p.domain) || !p.endedByItself() {
		return false
	}

	if p.override != nil && p.overridden("power") && p.override.TypedSpec().Since.After(p.status.Started) {
		return false
	}

	if stateOf(p.domain) == resources.StateCrashed {
		return p.spec.OnCrash == resources.StayOff
	}

	return p.spec.OnGuestShutdown == resources.StayOff
}

func (p *pass) restingMessage() string {
	switch {
	case p.spec.Power == resources.PowerStopped || !p.rests():
		return ""
	case stateOf(p.domain) == resources.StateCrashed:
		return "the guest crashed; onCrash is stay-off"
	default:
		return "the guest shut down; onGuestShutdown is stay-off"
	}
}

// start starts the domain that is off.
func (p *pass) start(ctx context.Context) (bool, error) {
	if p.blocked != nil {
		return true, nil // settle says why
	}

	next, err := p.domainStep(ctx, "start", func() error {
		return p.driver.StartDomain(ctx, p.uuid(), p.spec.Power == resources.PowerPaused)
	})
	if err == nil {
		p.status.Started, p.status.StopRequested = p.now, time.Time{}
		p.status.Addresses = nil // what was seen is of the run before
	}

	return next, err
}

func (p *pass) domainStep(ctx context.Context, what string, do func() error) (bool, error) {
	err := p.act(ctx, what, func() (bool, error) { return always(do()) })

	return err == nil, err
}

// watchRunning keeps the account of a domain that is as it should be.
func (p *pass) watchRunning() {
	if p.status.Started.IsZero() {
		p.status.Started = p.now // adopted, or the gateway was killed right after it started it
	}

	// A stop was called off. The guest may still follow the request until the grace is over; it is started again then.
	if stop := p.status.StopRequested; !stop.IsZero() {
		if left := stop.Add(p.spec.Shutdown.Grace.Std()).Sub(p.now); left > 0 {
			p.after(left)
		} else {
			p.status.StopRequested = time.Time{}
			p.c.presses.forget(p.id)
		}
	}

	if p.status.Crashes > 0 {
		if left := p.status.Started.Add(calm).Sub(p.now); left > 0 {
			p.after(left)
		} else {
			p.status.Crashes = 0
		}
	}
}

// inProbation reports whether the VM crashed too often to believe that it runs now.
func (p *pass) inProbation() bool {
	return p.spec.Power != resources.PowerStopped && p.status.Crashes >= crashLoop && !p.rests()
}

func (p *pass) crashMessage() string {
	return fmt.Sprintf("the guest ended by itself; it was started again %d times", p.status.Crashes)
}

// backoff is the least time between the last start and the next one after so many crashes.
func backoff(crashes int) time.Duration {
	if crashes == 0 {
		return 0
	}

	// Six doublings exceed the cap.
	return min(firstBackoff<<min(crashes-1, 6), maxBackoff)
}
