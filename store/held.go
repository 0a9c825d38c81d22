package store

import (
	"cmp"
	"slices"
)

// heldEntries are journal entries in memory, in the order of their numbers. Those that were taken away leave places, until there
// are more places than entries.
type heldEntries struct {
	items  []heldEntry
	places int // without an entry
}

type heldEntry struct {
	number uint64
	entry  *Entry // nil: taken away
}

// add appends an entry, whose number is greater than all before.
func (h *heldEntries) add(e *Entry) { h.items = append(h.items, heldEntry{e.Number, e}) }

// len returns how many entries there are.
func (h *heldEntries) len() int { return len(h.items) - h.places }

// remove takes an entry away, if it is there.
func (h *heldEntries) remove(number uint64) {
	i, found := slices.BinarySearchFunc(h.items, number, func(e heldEntry, n uint64) int { return cmp.Compare(e.number, n) })
	if !found || h.items[i].entry == nil {
		return
	}

	h.items[i].entry = nil
	h.places++

	if h.places > len(h.items)/2 {
		left := make([]heldEntry, 0, 2*h.len())
		for _, e := range h.items {
			if e.entry != nil {
				left = append(left, e)
			}
		}

		h.items, h.places = left, 0
	}
}

// newest visits entries between two numbers, both left out, from the newest to the oldest, until visit returns false; before 0
// stands for no bound.
func (h *heldEntries) newest(after, before uint64, visit func(e *Entry) bool) {
	end := len(h.items)
	if before > 0 {
		end, _ = slices.BinarySearchFunc(h.items, before, func(e heldEntry, n uint64) int { return cmp.Compare(e.number, n) })
	}

	for i := end - 1; i >= 0 && h.items[i].number > after; i-- {
		if e := h.items[i].entry; e != nil && !visit(e) {
			return
		}
	}
}
