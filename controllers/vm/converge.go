package vm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gateway/controllers/chain"
	"gateway/resources"
)

// checkPlacement goes on when the VM has a host.
func (p *pass) checkPlacement(context.Context) (bool, error) {
	if p.placement == nil {
		p.condition(resources.ConditionPlaced, resources.ConditionFalse, resources.ReasonPending, "")
	} else if s := p.placement.TypedSpec(); s.Host == "" {
		p.condition(resources.ConditionPlaced, resources.ConditionFalse, orElse(s.Reason, resources.ReasonPending), s.Message)
	} else {
		p.condition(resources.ConditionPlaced, resources.ConditionTrue, resources.ReasonPlaced, s.Message)

		return true, nil
	}

	p.status.Host = ""
	p.converged(resources.ConditionFalse, resources.ReasonWaiting, "not placed yet")

	return false, nil
}

// checkNetwork notes whether the VM's networks are on its host. It always goes on: a VM that runs can be stopped without.
func (p *pass) checkNetwork(context.Context) (bool, error) {
	reason, message := p.networkMissing()
	p.networkReady = reason == ""

	switch {
	case len(p.spec.Interfaces) == 0:
		p.networkReady = true
		p.condition(resources.ConditionNetworkReady, resources.ConditionTrue, resources.ReasonNotNeeded, "")
	case p.networkReady:
		p.condition(resources.ConditionNetworkReady, resources.ConditionTrue, resources.ReasonNetworkReady, "")
	default:
		p.condition(resources.ConditionNetworkReady, resources.ConditionFalse, reason, message)
		p.block(resources.ReasonWaiting, strings.TrimSuffix("the network is not ready: "+message, ": "))
	}

	return true, nil
}

// networkMissing returns why the networks are not ready; an empty reason: they are.
func (p *pass) networkMissing() (reason, message string) {
	if p.network == nil || p.network.TypedSpec().Host != p.host() {
		return resources.ReasonPending, ""
	}

	n := p.network.TypedSpec()

	switch {
	case !n.Ready:
		return orElse(n.Reason, resources.ReasonPending), n.Message
	case !p.covers(n.Interfaces):
		// Bindings of an earlier revision, or of before the override.
		return resources.ReasonWaiting, fmt.Sprintf("the network was made for revision %d of the VM", n.Revision)
	}

	return "", ""
}

// covers reports whether the bindings are those of the VM's interfaces.
func (p *pass) covers(bindings []resources.NetworkBinding) bool {
	return slices.EqualFunc(p.spec.Interfaces, bindings, func(i resources.Interface, b resources.NetworkBinding) bool {
		return i.Network == b.Network && (i.MAC == "" || strings.EqualFold(i.MAC, b.MAC)) &&
			(i.Address == "" || i.Address == b.Address)
	})
}

// checkHold ends the pass for a VM that is held: it is observed, and nothing is done. A hold that came with a forced
// deletion is meant for who would declare the VM again.
func (p *pass) checkHold(context.Context) (bool, error) {
	if p.hold == nil || p.deleting() && p.hold.TypedSpec().Reason == resources.HoldForced {
		return true, nil
	}

	p.converged(resources.ConditionFalse, resources.ReasonHeld, "held by "+orElse(p.hold.TypedSpec().By, "nobody known"))

	return false, nil
}

// block notes why the domain can't be defined or started now. The first reason stands.
func (p *pass) block(reason, message string) {
	if p.blocked == nil {
		p.blocked = &resources.Condition{Reason: reason, Message: message}
	}
}

// settle reads again what was changed, and says how far the VM is.
func (p *pass) settle(ctx context.Context) (bool, error) {
	if p.acted && p.domain != nil {
		if err := p.look(ctx); err != nil {
			return false, err
		}
	}

	if p.hasPower() && !isOff(p.domain) {
		p.watchRunning()
	}

	// What is left to do for a running domain, or to be asked of its guest, is done by the next pass.
	if p.blocked == nil {
		p.insist()

		if wait := p.c.insistence.wait(p.id, p.tick); wait > 0 {
			p.after(wait)
		}
	}

	if err := p.readAddresses(ctx); err != nil {
		return false, err
	}

	// A VM without interfaces lets go of a network that it used before, once its domain does not use it any more.
	if chain.Has(p.network, finalizer) && !chain.Running(p.network) {
		if err := chain.Release(ctx, p.r, p.network.Metadata(), finalizer); err != nil {
			return false, err
		}
	}

	switch {
	case p.blocked != nil:
		p.converged(resources.ConditionFalse, p.blocked.Reason, p.blocked.Message)
	case !p.hasPower():
		p.converged(resources.ConditionFalse, resources.ReasonStarting, "")
		p.after(settleRetry)
	case p.cramped():
		p.converged(resources.ConditionFalse, resources.ReasonNotEnoughCapacity, p.placement.TypedSpec().Message)
	case p.inProbation():
		p.converged(resources.ConditionFalse, resources.ReasonCrashLoop, p.crashMessage())
	case len(p.status.RestartRequired) > 0:
		p.converged(resources.ConditionFalse, resources.ReasonRestartRequired, p.restartMessage())
	case p.waitsForGuest():
		p.converged(resources.ConditionFalse, resources.ReasonWaiting, p.guestMessage())
	default:
		p.converged(resources.ConditionTrue, resources.ReasonConverged, p.restingMessage())
	}

	return true, nil
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}

	return text
}
