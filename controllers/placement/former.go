package placement

import (
	"context"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"

	"gateway/controllers/chain"
	"gateway/resources"
)

// settleTime is how long after a start the VMs of a restored store are not made anew that are on no host: perhaps they went after the
// backup, and the documents, which are read meanwhile, say so.
const settleTime = 30 * time.Second

// settling returns how much of that time is left for a VM; 0: it can be placed.
func (p *pass) settling() time.Duration {
	if p.former == "" {
		return 0
	}

	return time.Until(p.ledger().loadedAt.Add(settleTime))
}

// unsettled leaves a VM unplaced until the documents were read.
func (p *pass) unsettled(ctx context.Context, wait time.Duration) error {
	err := p.nowhere(ctx, resources.VMPlacementSpec{
		Revision: p.revision(), Reason: resources.ReasonPending, Message: "no host has it after a restore: it is made anew when the documents were read",
	}, "")
	if err != nil {
		return err
	}

	return controller.NewRequeueInterval(wait)
}

// findFormer looks for the domain of a VM that is taken away before it was found after a restore, and has it removed from where it is.
// Nothing is known to be anywhere until every host has answered. The caller holds the lock.
func (p *pass) findFormer(ctx context.Context) error {
	current, err := chain.Get[*resources.VMPlacement](ctx, p.r, p.pointer())
	if err != nil || current == nil || !chain.Running(current) || current.TypedSpec().Host != "" || current.TypedSpec().Former == "" {
		return err
	}

	p.ask(ctx)

	spec := *current.TypedSpec()

	found, silent := p.ledger().where(p.c.options.GatewayID, p.id, "")
	if found == "" && silent != "" {
		spec.Reason, spec.Message = resources.ReasonHostUnreachable, "host "+silent+" has to be asked first whether it has the VM's domain"

		if err := p.write(ctx, spec); err != nil {
			return err
		}

		return controller.NewRequeueInterval(askAgain)
	}

	if found == "" && p.ledger().hosts[spec.Former] != nil {
		found = spec.Former // its volumes may be there
	}

	if found == "" {
		return nil
	}

	return p.write(ctx, resources.VMPlacementSpec{
		Host: found, Reason: resources.ReasonPlaced, Revision: spec.Revision,
	})
}
