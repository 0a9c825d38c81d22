package main

import (
	"strings"

	"gateway/resources"
)

// kindNamed returns the kind that an argument names, in any case, singular or plural.
func kindNamed(name string) (*resources.Kind, error) {
	kind, ok := resources.LookupKind(name)
	if !ok {
		return nil, usageError("%q is not a kind: use one of %s", name, strings.Join(kindNames(), ", "))
	}

	return kind, nil
}

// kindNames are the kinds that people mostly ask for: those that they declare, and files.
func kindNames() []string { return append(declaredNames(), "File") }

// declaredNames are the kinds that documents have.
func declaredNames() []string {
	var names []string
	for _, kind := range resources.DeclaredKinds() {
		names = append(names, kind.Name)
	}

	return names
}
