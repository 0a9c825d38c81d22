package documents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/controllers/chain"
	"gateway/resources"
)

// confirmed remembers, while the removal of a confirmed set goes on, what is in it: when it is interrupted, the rest is still
// confirmed although it is another set. A restart forgets it; then the guard's list serves, which names up to maxGuarded.
// The zero value is ready to use.
type confirmed struct {
	mu     sync.Mutex // guards byRoot
	byRoot map[resource.ID]map[string]bool
}

// allow notes that these objects of a root may be removed.
func (c *confirmed) allow(root resource.ID, names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.byRoot == nil {
		c.byRoot = map[resource.ID]map[string]bool{}
	}

	if c.byRoot[root] == nil {
		c.byRoot[root] = map[string]bool{}
	}

	for _, name := range names {
		c.byRoot[root][name] = true
	}
}

// allows reports whether all of these objects may be removed.
func (c *confirmed) allows(root resource.ID, gone []orphan) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	for _, o := range gone {
		if !c.byRoot[root][o.String()] {
			return false
		}
	}

	return true
}

// forget ends a confirmation: it holds for one removal.
func (c *confirmed) forget(root resource.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()

	delete(c.byRoot, root)
}

// isConfirmed reports whether all of these objects of a root may be removed: the confirmations that wait cover them. One
// covers what would be removed now, if that has its digest, and what the guard lists under it.
func (c *Controller) isConfirmed(ctx context.Context, r controller.UncachedReader, root resource.ID, path string, gone []orphan) (bool, error) {
	guard, err := chain.Get[*resources.DeletionGuard](ctx, r, resources.NewDeletionGuard(root).Metadata())
	if err != nil {
		return false, err
	}

	actions, err := r.ListUncached(ctx, resources.NewAction("").Metadata())
	if err != nil {
		return false, fmt.Errorf("error listing the confirmations of %s: %w", path, err)
	}

	for _, item := range actions.Items {
		action, ok := item.(*resources.Action)
		if !ok || !chain.Has(action, resources.FinalizerDocuments) {
			continue
		}

		spec := action.TypedSpec()
		if spec.Verb != resources.ActionConfirm || spec.Subject != path {
			continue
		}

		digest, err := confirmedDigest(spec.Body)
		if err != nil {
			continue // its own reconcile says so
		}

		if digestOf(gone) == digest {
			for _, o := range gone {
				c.confirmed.allow(root, o.String())
			}
		}

		if guard != nil && guard.TypedSpec().Digest == digest {
			c.confirmed.allow(root, guard.TypedSpec().Objects...)
		}
	}

	if c.confirmed.allows(root, gone) {
		return true, nil
	}

	c.confirmed.forget(root) // it was for another set

	return false, nil
}

// confirmedDigest reads the body of a confirmation.
func confirmedDigest(body []byte) (string, error) {
	var confirmation struct {
		Digest string `json:"digest"`
	}

	if err := json.Unmarshal(body, &confirmation); err != nil {
		return "", fmt.Errorf("error reading the confirmation: %w", err)
	}

	if confirmation.Digest == "" {
		return "", errors.New("the digest of what is confirmed is missing")
	}

	return confirmation.Digest, nil
}
