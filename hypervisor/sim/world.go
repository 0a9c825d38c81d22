package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"gateway/hypervisor"
)

// World is a set of simulated hosts by name. Connecting again to sim://a finds the host that was there before. It is
// safe for concurrent use.
type World struct {
	mu    sync.Mutex // guards hosts; taken before the lock of a host
	hosts map[string]*Host
}

// NewWorld returns a world without hosts. Tests have one each.
func NewWorld() *World { return &World{hosts: map[string]*Host{}} }

// defaultWorld is the world of the process.
var defaultWorld = NewWorld()

// Default returns the world of the process, which Open connects to.
func Default() *World { return defaultWorld }

// Open is the hypervisor.Opener of the process's world.
func Open(ctx context.Context, uri, gateway string) (hypervisor.Driver, error) {
	return defaultWorld.open(ctx, uri, gateway)
}

// NewOpener returns an opener that connects to the hosts of a world.
func NewOpener(world *World) hypervisor.Opener { return world.open }

// Host returns the host of a name, and makes it when there is none.
func (w *World) Host(name string) *Host {
	w.mu.Lock()
	defer w.mu.Unlock()

	h := w.hosts[name]
	if h == nil {
		h = newHost(name)
		w.hosts[name] = h
	}

	return h
}

// Hosts returns all hosts, ordered by name.
func (w *World) Hosts() []*Host {
	w.mu.Lock()
	defer w.mu.Unlock()

	hosts := slices.Collect(maps.Values(w.hosts))
	slices.SortFunc(hosts, func(a, b *Host) int { return strings.Compare(a.name, b.name) })

	return hosts
}

// Located is a domain and the host that has it.
type Located struct {
	Host   string
	Domain hypervisor.Domain
}

// Domains returns the domains with a UUID on all hosts: more than one that is on is what a gateway must never bring about.
func (w *World) Domains(uuid string) []Located {
	var found []Located

	for _, h := range w.Hosts() {
		if d, ok := h.Domain(uuid); ok {
			found = append(found, Located{Host: h.name, Domain: d})
		}
	}

	return found
}

// Calls returns how many calls arrived, by method, over all hosts.
func (w *World) Calls() map[string]int64 {
	return w.sum(func(h *Host) map[string]int64 { return h.calls })
}

// Changes returns how many calls changed something, by method, over all hosts.
func (w *World) Changes() map[string]int64 {
	return w.sum(func(h *Host) map[string]int64 { return h.changes })
}

func (w *World) sum(of func(*Host) map[string]int64) map[string]int64 {
	total := map[string]int64{}

	for _, h := range w.Hosts() {
		h.mu.Lock()
		for call, n := range of(h) {
			total[call] += n
		}
		h.mu.Unlock()
	}

	return total
}

// Violations returns what no gateway may ever do, as far as it was seen: a domain that is on with the same UUID on two
// hosts, and what was taken away under a domain that was on.
func (w *World) Violations() []string {
	var all []string

	on := map[string]string{}

	for _, h := range w.Hosts() {
		h.mu.Lock()
		all = append(all, h.violations...)

		for uuid, d := range h.domains {
			if d.live == nil {
				continue
			}

			if other, twice := on[uuid]; twice {
				all = append(all, fmt.Sprintf("domain %q (%s) is on at both %s and %s", d.spec.Name, uuid, other, h.name))
			}

			on[uuid] = h.name
		}
		h.mu.Unlock()
	}

	slices.Sort(all)

	return all
}

// Close closes all connections and state files. The hosts are as good as dead afterwards: a new world on the same state
// files is what a restarted machine would be.
func (w *World) Close() error {
	var errs []error

	for _, h := range w.Hosts() {
		h.Kill(false)

		h.mu.Lock()
		file := h.file
		h.file = nil
		h.mu.Unlock()

		if file != nil {
			errs = append(errs, file.close())
		}
	}

	return errors.Join(errs...)
}
