package placement

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/cosi-project/runtime/pkg/controller"

	"gateway/controllers/chain"
	"gateway/internal/overrides"
	"gateway/resources"
)

// request is what a VM needs of a host.
type request struct {
	vm     string
	need   resources.Capacity
	labels map[string]string
	rules  resources.Placement
	// settled reports whether the VM has volumes, or was adopted: they are on its host and don't move, nor
	// does what of an adopted domain no document says.
	settled bool
	// files are the paths of its other disks. They are where the directory is that they are in.
	files []string
	// images are those that disks without a size of their own start from: such a disk is as large as its image. imaged is what they
	// take of need; unsized reports whether the size of one is not known yet.
	images  []string
	imaged  resources.Size
	unsized bool
}

// requestOf returns what a VM needs, with the sizes of images. Disks that are files of somebody else take nothing.
func requestOf(vm *resources.VMConfig, sizes map[string]resources.Size) request {
	spec := vm.TypedSpec()
	q := request{
		vm:     vm.Metadata().ID(),
		need:   resources.Capacity{CPUs: spec.CPUs, Memory: spec.Memory},
		labels: vm.Metadata().Labels().Raw(), rules: spec.Placement, settled: spec.Adopt != nil,
	}

	for _, d := range spec.Disks {
		q.need.Disk += d.Size

		if d.Size == 0 && d.Image != "" {
			q.images = append(q.images, d.Image)
			q.imaged += sizes[d.Image]
			q.unsized = q.unsized || sizes[d.Image] == 0
		}

		if d.Path == "" {
			q.settled = true
		} else {
			q.files = append(q.files, d.Path)
		}
	}

	q.need.Disk += q.imaged

	return q
}

// readVM returns a VM as it counts: under its override; nil where there is none.
func readVM(ctx context.Context, r controller.UncachedReader, name string) (*resources.VMConfig, error) {
	vm, err := chain.Get[*resources.VMConfig](ctx, r, chain.VM(name))
	if err != nil || vm == nil {
		return nil, err
	}

	return under(ctx, r, vm)
}

// under returns a VM under its override.
func under(ctx context.Context, r controller.UncachedReader, vm *resources.VMConfig) (*resources.VMConfig, error) {
	override, err := chain.Get[*resources.Override](ctx, r, resources.NewOverride(vm.Metadata().ID()).Metadata())
	if err != nil {
		return nil, err
	}

	return overrides.Effective(vm, override), nil
}

func (q *request) equal(o *request) bool {
	return q.vm == o.vm && q.need == o.need && q.settled == o.settled && q.imaged == o.imaged && q.unsized == o.unsized && slices.Equal(q.images, o.images) &&
		slices.Equal(q.files, o.files) && maps.Equal(q.labels, o.labels) &&
		q.rules.Host == o.rules.Host && q.rules.Spread == o.rules.Spread && maps.Equal(q.rules.Selector, o.rules.Selector) &&
		maps.Equal(q.rules.Apart, o.rules.Apart) && maps.Equal(q.rules.Together, o.rules.Together)
}

// kin names the VMs that are spread as one: those with the same labels and the same `spread`.
func (q *request) kin() string {
	parts := []string{q.rules.Spread}
	for _, k := range resources.SortedKeys(q.labels) {
		parts = append(parts, k, q.labels[k])
	}

	return strings.Join(parts, "\x00")
}

// pair is one label.
type pair struct{ key, value string }

// firstPair returns the label of a set under which the set is indexed.
func firstPair(set map[string]string) pair {
	key := slices.Min(slices.Collect(maps.Keys(set)))

	return pair{key, set[key]}
}

// matches reports whether labels has all of set.
func matches(set, labels map[string]string) bool {
	for k, v := range set {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}

	return true
}

// text is a set of labels as users write it.
func text(set map[string]string) string {
	parts := make([]string, 0, len(set))
	for _, k := range resources.SortedKeys(set) {
		parts = append(parts, k+"="+set[k])
	}

	return strings.Join(parts, ",")
}
