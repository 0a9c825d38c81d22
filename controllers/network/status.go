package network

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"go.uber.org/zap"

	"gateway/controllers/chain"
	"gateway/resources"
)

// start writes the statuses of all networks, and lets go of those that nobody uses: an event of a network from before the
// start leads nowhere.
func (c *Controller) start(ctx context.Context, _ *zap.Logger, r controller.QRuntime) error {
	l := &c.ledger

	l.mu.Lock()
	defer l.mu.Unlock()

	if err := l.load(ctx, r); err != nil {
		return err
	}

	statuses, err := r.ListUncached(ctx, resources.NewNetworkStatus("").Metadata())
	if err != nil {
		return fmt.Errorf("error listing the network statuses: %w", err)
	}

	for _, item := range statuses.Items {
		l.network(item.Metadata().ID()) // one whose document is gone is unreported, and so dropped
	}

	for _, name := range resources.SortedKeys(l.networks) {
		if err := c.releaseNetwork(ctx, r, name); err != nil {
			return err
		}
	}

	return c.report(ctx, r)
}

// report writes the statuses that are not what they should be. The caller holds the lock.
func (c *Controller) report(ctx context.Context, r controller.QRuntime) error {
	for name, n := range c.ledger.unreported {
		if err := c.reportOne(ctx, r, n); err != nil {
			return err
		}

		delete(c.ledger.unreported, name)

		if n.doc == nil && len(n.users) == 0 && len(n.waiters) == 0 && len(n.declared) == 0 {
			delete(c.ledger.networks, name)
		}
	}

	return nil
}

func (c *Controller) reportOne(ctx context.Context, r controller.QRuntime, n *network) error {
	if n.doc == nil {
		_, err := chain.Drop(ctx, r, resources.NewNetworkStatus(n.name).Metadata())

		return err
	}

	err := r.Modify(ctx, resources.NewNetworkStatus(n.name), func(res resource.Resource) error {
		status, ok := res.(*resources.NetworkStatus)
		if !ok {
			return fmt.Errorf("NetworkStatus %q has the Go type %T", n.name, res)
		}

		spec := status.TypedSpec().DeepCopy()
		spec.Hosts, spec.ObservedRevision = resources.SortedKeys(n.ready), n.doc.revision
		spec.Conditions = resources.SetCondition(spec.Conditions, n.condition(), time.Now().UTC().Round(0))

		if !reflect.DeepEqual(*status.TypedSpec(), spec) {
			*status.TypedSpec() = spec
		}

		return nil
	})
	if err != nil {
		return fmt.Errorf("error writing the status of network %q: %w", n.name, err)
	}

	return nil
}

// condition sums up how the network is on all hosts.
func (n *network) condition() resources.Condition {
	c := resources.Condition{Type: resources.ConditionReady, Status: resources.ConditionTrue, Reason: resources.ReasonReady}

	var messages []string

	for _, host := range resources.SortedKeys(n.failures) {
		failure := n.failures[host]

		if len(messages) == 0 {
			c.Status, c.Reason = resources.ConditionFalse, failure.reason
		}

		if len(messages) == maxMessages {
			messages = append(messages, fmt.Sprintf("and %d hosts more", len(n.failures)-maxMessages))

			break
		}

		messages = append(messages, failure.message)
	}

	c.Message = strings.Join(messages, "; ")

	return c
}

// maxMessages bounds how many hosts a condition speaks of.
const maxMessages = 3
