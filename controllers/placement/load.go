package placement

import "gateway/resources"

// names is a set of VMs.
type names map[string]struct{}

// load is what is placed on one host, with the indexes that the rules need: a decision never looks through all VMs.
type load struct {
	used resources.Capacity
	// vms are those placed here; a claim takes capacity, but is not a VM that is here.
	vms    names
	labels map[pair]names
	// aparts are the VMs that must be apart from others, by the first label of what they must be apart from.
	aparts map[pair]names
	// spread counts VMs by their `spread`, kin by that and their labels.
	spread, kin map[string]int
}

func newLoad() *load {
	return &load{vms: names{}, labels: map[pair]names{}, aparts: map[pair]names{}, spread: map[string]int{}, kin: map[string]int{}}
}

func (l *load) reserve(c resources.Capacity, sign int) {
	l.used.CPUs += sign * c.CPUs
	l.used.Memory += resources.Size(sign) * c.Memory
	l.used.Disk += resources.Size(sign) * c.Disk
}

func (l *load) add(e *entry) {
	l.reserve(e.reserved, 1)
	l.vms[e.vm] = struct{}{}

	for k, v := range e.labels {
		put(l.labels, pair{k, v}, e.vm)
	}

	if len(e.rules.Apart) > 0 {
		put(l.aparts, firstPair(e.rules.Apart), e.vm)
	}

	if e.rules.Spread != "" {
		l.spread[e.rules.Spread]++
		l.kin[e.kin()]++
	}
}

func (l *load) remove(e *entry) {
	l.reserve(e.reserved, -1)
	delete(l.vms, e.vm)

	for k, v := range e.labels {
		drop(l.labels, pair{k, v}, e.vm)
	}

	if len(e.rules.Apart) > 0 {
		drop(l.aparts, firstPair(e.rules.Apart), e.vm)
	}

	if e.rules.Spread != "" {
		uncount(l.spread, e.rules.Spread)
		uncount(l.kin, e.kin())
	}
}

func put[K comparable](index map[K]names, key K, vm string) {
	if index[key] == nil {
		index[key] = names{}
	}

	index[key][vm] = struct{}{}
}

func drop[K comparable](index map[K]names, key K, vm string) {
	delete(index[key], vm)

	if len(index[key]) == 0 {
		delete(index, key)
	}
}

func uncount(counts map[string]int, key string) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}
