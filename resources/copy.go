package resources

import (
	"maps"
	"slices"
)

// cloneMap, cloneSlice and clonePointer keep the deep copies short; nil stays nil.
func cloneMap[K comparable, V any](m map[K]V) map[K]V { return maps.Clone(m) }

func cloneSlice[T any](s []T) []T { return slices.Clone(s) }

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}

	c := *p

	return &c
}

// cloneEach copies a slice whose elements have parts of their own.
func cloneEach[T any](s []T, clone func(T) T) []T {
	if s == nil {
		return nil
	}

	out := make([]T, len(s))
	for i := range s {
		out[i] = clone(s[i])
	}

	return out
}
