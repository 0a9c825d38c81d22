package network

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"gateway/controllers/chain"
	"gateway/hypervisor"
	"gateway/resources"
)

// problem is why a VM's network is not ready.
type problem struct {
	reason, message string
}

// refuse makes a problem of an allocation.
func refuse(reason, format string, args ...any) *problem {
	return &problem{reason, fmt.Sprintf(format, args...)}
}

// problemOf says what an error of a host means to users.
func problemOf(err error) problem {
	p := problem{resources.ReasonNetworkFailed, err.Error()}

	switch {
	case errors.Is(err, hypervisor.ErrUnreachable):
		p.reason = resources.ReasonHostUnreachable
	case errors.Is(err, hypervisor.ErrForeign):
		p.reason = resources.ReasonNameTaken
	case errors.Is(err, hypervisor.ErrBusy), errors.Is(err, chain.ErrUnderWay):
		p.reason = resources.ReasonBusy
	case errors.Is(err, errMissing):
		p.reason = resources.ReasonNetworkMissing
	}

	return p
}

// Times after which a host is looked at again where no event will tell.
const (
	busyRetry = 250 * time.Millisecond
	// hungRetry is for a host that is connected and did not answer; awayRetry for one that is not connected, whose
	// return is an event: it is the safety net.
	hungRetry = 5 * time.Second
	awayRetry = time.Minute
	// refusedRetry is for what somebody has to change by hand on the host.
	refusedRetry = 30 * time.Second
)

// retryAfter returns when to look again, 0 where the failure is one that COSI's backoff answers.
func (p *pass) retryAfter(err error) time.Duration {
	switch problemOf(err).reason {
	case resources.ReasonBusy:
		return jitter(busyRetry)
	case resources.ReasonHostUnreachable:
		if p.connected {
			return jitter(hungRetry)
		}

		return jitter(awayRetry)
	case resources.ReasonNameTaken, resources.ReasonNetworkMissing:
		return jitter(refusedRetry)
	default:
		if errors.Is(err, hypervisor.ErrInvalid) || errors.Is(err, hypervisor.ErrUnsupported) {
			return jitter(refusedRetry)
		}

		return 0
	}
}

// jitter spreads d over 75 % to 125 % of it.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2)
}
