package sim

import (
	"maps"
	"slices"

	"gateway/hypervisor"
)

// model is what the outside asked for: what has to be true in the end.
type model struct {
	// files are the VMs of each file as they are on the disk, in order.
	files map[string][]object
	// ci are the VMs that were declared by the webhook or the API, as last acknowledged; nil: last asked to go.
	ci map[string]object
	// ciEvent is the event that was acknowledged last for each; unsure are those of which an unacknowledged one came later.
	ciEvent map[string]string
	unsure  map[string]bool
	// acked are the ids of all events that were acknowledged, with their keys and routes.
	acked []ackedEvent
	// sent are the messages that subscriptions take in, in the order of their stream.
	sent    []sent
	version int
	drained int
	spare   bool
	// image is the version of the image that is declared.
	image int
	// foreign are domains of others, by host and UUID, as they were made.
	foreign map[string]map[string]hypervisor.Domain
	down    map[string]bool
	// takers are those of them that have a VM's name.
	takers []taker
}

type ackedEvent struct{ route, id, key string }

func newModel() *model {
	return &model{
		files: map[string][]object{}, ci: map[string]object{}, ciEvent: map[string]string{}, unsure: map[string]bool{},
		drained: -1, foreign: map[string]map[string]hypervisor.Domain{}, down: map[string]bool{},
	}
}

// where returns the files that declare a VM.
func (m *model) where(name string) (files []string) {
	for _, file := range slices.Sorted(maps.Keys(m.files)) {
		if slices.ContainsFunc(m.files[file], func(d object) bool { return nameOf(d) == name }) {
			files = append(files, file)
		}
	}

	return files
}

// without returns a file's documents without a VM.
func (m *model) without(file, name string) []object {
	return slices.DeleteFunc(slices.Clone(m.files[file]), func(d object) bool { return nameOf(d) == name })
}

// wanted returns the VMs that have to exist, by name.
func (m *model) wanted() map[string]object {
	all := map[string]object{}

	for _, documents := range m.files {
		for _, d := range documents {
			all[nameOf(d)] = d
		}
	}

	for name, d := range m.ci {
		if d != nil {
			all[name] = d
		}
	}

	return all
}
