package placement

import (
	"context"

	"github.com/cosi-project/runtime/pkg/controller"

	"gateway/controllers/chain"
	"gateway/resources"
)

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
