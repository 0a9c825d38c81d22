package placement

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/controllers/chain"
	"gateway/resources"
)

// host is what placement knows of a host: its document, and what was observed of it.
type host struct {
	name   string
	uri    string
	labels map[string]string
	// declared reports whether the document is there and was not taken away.
	declared           bool
	schedulable, drain bool
	connected          bool
	// abandoned reports whether a person gave the host up: it is not asked, and nothing stays on it.
	abandoned bool
	// failed reports whether an attempt to connect has failed; generation, which connection it is, 0 before the first.
	failed     bool
	generation int64
	// shared are directories that other hosts which name them have too.
	shared []string
	// capacity is what may be reserved in all: overcommit is in it.
	capacity resources.Capacity
}

func (h *host) equal(o *host) bool {
	if h == nil || o == nil {
		return h == o
	}

	return h.name == o.name && h.uri == o.uri && h.declared == o.declared && h.schedulable == o.schedulable &&
		h.drain == o.drain && h.abandoned == o.abandoned && h.connected == o.connected && h.failed == o.failed && h.generation == o.generation &&
		h.capacity == o.capacity && slices.Equal(h.shared, o.shared) && maps.Equal(h.labels, o.labels)
}

// readHost reads a host; nil: there is none.
func readHost(ctx context.Context, r controller.UncachedReader, name string) (*host, error) {
	declared, err := chain.Get[*resources.Host](ctx, r, hostPointer(name))
	if err != nil || declared == nil {
		return nil, err
	}

	h := &host{
		name: name, uri: declared.TypedSpec().URI, labels: declared.Metadata().Labels().Raw(),
		declared:    !resources.IsLeaving(declared.Metadata()),
		shared:      declared.TypedSpec().SharedPaths,
		abandoned:   resources.IsAbandoned(declared.Metadata()),
		schedulable: declared.TypedSpec().Schedulable, drain: declared.TypedSpec().Drain,
	}

	status, err := chain.Get[*resources.HostStatus](ctx, r, resources.NewHostStatus(name).Metadata())
	if err != nil || status == nil {
		return h, err
	}

	s := status.TypedSpec()
	h.connected, h.generation, h.failed = s.Connected, s.Generation, s.LastError != ""

	if connected := resources.FindCondition(s.Conditions, resources.ConditionConnected); connected != nil {
		h.failed = h.failed || connected.Status == resources.ConditionFalse && connected.Reason != resources.ReasonHostConnecting
	}

	h.capacity = overcommitted(s.Capacity, declared.TypedSpec().Overcommit)

	return h, nil
}

// shares reports whether a file is in a directory that the host has in common with others.
func (h *host) shares(file string) bool {
	return slices.ContainsFunc(h.shared, func(dir string) bool { return strings.HasPrefix(file, dir+"/") })
}

func hostPointer(name string) resource.Pointer { return resources.NewHost(name).Metadata() }

// overcommitted is what may be reserved of a capacity.
func overcommitted(c resources.Capacity, o resources.Overcommit) resources.Capacity {
	return resources.Capacity{
		CPUs:   int(float64(c.CPUs) * factor(o.CPUs)),
		Memory: resources.Size(float64(c.Memory) * factor(o.Memory)),
		Disk:   resources.Size(float64(c.Disk) * factor(o.Disk)),
	}
}

// factor takes a document without a value, which only a test or a broken writer makes, as one.
func factor(f float64) float64 {
	if f <= 0 {
		return 1
	}

	return f
}
