package documents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/config"
	"gateway/controllers/chain"
	"gateway/resources"
	"gateway/store"
)

// hostsFirst lets the Hosts of all files be declared before the VMs of any is placed, when a process begins: with a store that
// was lost, a VM's domain may be on a host whose document is in a file that comes later.
type hostsFirst struct {
	known chan struct{}

	mu   sync.Mutex // guards open
	open map[resource.ID]bool
}

func newHostsFirst(roots []string) *hostsFirst {
	h := &hostsFirst{known: make(chan struct{}), open: map[resource.ID]bool{}}
	for _, path := range roots {
		h.open[resources.FileID(path)] = true
	}

	if len(h.open) == 0 {
		close(h.known)
	}

	return h
}

func (h *hostsFirst) isOpen(root resource.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()

	return h.open[root]
}

func (h *hostsFirst) done(root resource.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()

	if delete(h.open, root); len(h.open) == 0 {
		close(h.known)
	}
}

// HostsKnown is closed when the Hosts are declared that the documents directories had when the process began. What of them can't
// be read is not waited for.
func (c *Controller) HostsKnown() <-chan struct{} { return c.hosts.known }

// declareHosts declares the Hosts of the files under a root that were not handled yet, once, when its first scan was told. Whatever is wrong
// with a file or a Host is told when the file is handled.
func (c *Controller) declareHosts(ctx context.Context, r controller.QRuntime, id resource.ID) error {
	if !c.hosts.isOpen(id) {
		return nil
	}

	root, err := chain.Get[*resources.FileRoot](ctx, r, resources.NewFileRoot(id).Metadata())
	if err != nil {
		return err
	}

	if !chain.Running(root) {
		return nil
	}

	if spec := root.TypedSpec(); spec.Available {
		if spec.Begun != spec.Completed || spec.Unsettled > 0 {
			return nil // the source writes the root again
		}

		if err := c.declareHostsOf(ctx, r, spec.Path); err != nil {
			return err
		}
	}

	c.hosts.done(id)

	return nil
}

func (c *Controller) declareHostsOf(ctx context.Context, r controller.QRuntime, root string) error {
	lock := c.roots.of(resources.FileID(root))

	lock.RLock()
	defer lock.RUnlock()

	events, err := filesUnder(ctx, r, root)
	if err != nil {
		return err
	}

	for _, event := range events {
		if !chain.Running(event) {
			continue
		}

		last, err := resultOf(ctx, r, event.Metadata().ID())
		if err != nil {
			return err
		}

		if isHandled(event, last) {
			continue
		}

		if err := c.declareHostsIn(ctx, r, event.TypedSpec(), last); err != nil {
			return err
		}
	}

	return nil
}

func (c *Controller) declareHostsIn(ctx context.Context, r controller.QRuntime, event *resources.FileEventSpec, last *resources.ApplyResult) error {
	data, err := readFile(event)
	if err != nil || !mayDeclareHosts(data) {
		return nil //nolint:nilerr // the file's own turn tells
	}

	documents, err := config.Decode(event.Path, data)
	if err != nil {
		return nil //nolint:nilerr // the file's own turn tells
	}

	hosts := slices.DeleteFunc(documents, func(d config.Document) bool { return d.Kind.Name != "Host" })
	if len(hosts) == 0 {
		return nil
	}

	d := declarationOf(event)
	if d.withheld, err = withheld(ctx, r, event, last); err != nil {
		return err
	}

	for _, host := range hosts {
		_, err := c.applyOne(ctx, r, host, d, objectName(host.Kind.Name, host.Resource.Metadata().ID()))
		if _, refused := errors.AsType[*store.AdmissionError](err); err != nil && !refused {
			return fmt.Errorf("error declaring the hosts of %s: %w", event.Path, err)
		}
	}

	return nil
}

// mayDeclareHosts spares the decoding of files that can't have a Host: neither the word nor an escape that may stand for it.
func mayDeclareHosts(data []byte) bool {
	return bytes.Contains(data, []byte("Host")) || bytes.ContainsRune(data, '\\')
}
