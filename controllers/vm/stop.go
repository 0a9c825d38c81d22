package vm

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"go.uber.org/zap"

	"gateway/hypervisor"
	"gateway/resources"
)

// pressInterval is how often the guest is asked to shut down: an early press of the power button is lost.
const pressInterval = 5 * time.Second

// stop brings the domain off: by ACPI first, by force after the grace. It never waits: what is not off yet is looked at
// again after a while. A paused guest hears nothing and is forced off at once. Until it is off, the reason and
// the message say why the VM has not converged.
func (p *pass) stop(ctx context.Context, reason, message string) (off bool, err error) {
	if p.domain == nil || isOff(p.domain) {
		p.c.presses.forget(p.id)

		return true, nil
	}

	// Before the status is written for the first time: who waits for it must not take what held before the stop for its end.
	p.converged(resources.ConditionFalse, reason, message)

	// Who looks at the domain after a crash of the gateway must know that it was us who stopped it.
	if p.status.StopRequested.IsZero() {
		p.status.StopRequested = p.now
		if err := p.flush(ctx); err != nil {
			return false, err
		}
	}

	elapsed, grace := p.now.Sub(p.status.StopRequested), p.spec.Shutdown.Grace.Std()
	if p.domain.State == resources.StatePaused || elapsed >= grace {
		return p.forceOff(ctx)
	}

	if p.c.presses.due(p.id, p.tick) {
		err := p.act(ctx, "request shutdown", func() (bool, error) { return always(p.driver.RequestShutdown(ctx, p.uuid())) })
		if errors.Is(err, hypervisor.ErrUnreachable) || errors.Is(err, hypervisor.ErrForeign) {
			return false, err
		}

		if err != nil { // a guest that can't be asked is forced off after the grace all the same
			p.logger.Warn("the guest can't be asked to shut down", zap.Error(err))
		}
	}

	p.after(min(pressInterval, grace-elapsed))

	return false, nil
}

func (p *pass) forceOff(ctx context.Context) (bool, error) {
	err := p.act(ctx, "force off", func() (bool, error) { return always(p.driver.ForceOff(ctx, p.uuid())) })
	if err != nil {
		return false, err
	}

	if err := p.look(ctx); err != nil {
		return false, err
	}

	if p.domain != nil && !isOff(p.domain) {
		p.after(settleRetry)

		return false, nil
	}

	p.c.presses.forget(p.id)

	return true, nil
}

// presses remembers when each guest was last asked to shut down, so that a storm of events is not a storm of presses. It
// holds only VMs that are being stopped; losing it costs a press.
type presses struct {
	mu   sync.Mutex // guards last
	last map[resource.ID]time.Time
}

// due reports whether it is time to ask again, and notes that it is done now.
func (s *presses) due(vm resource.ID, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	if last, ok := s.last[vm]; ok && now.Sub(last) < pressInterval-minRequeue {
		return false
	}

	if s.last == nil {
		s.last = map[resource.ID]time.Time{}
	}

	s.last[vm] = now

	return true
}

func (s *presses) forget(vm resource.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()

	delete(s.last, vm)
}
