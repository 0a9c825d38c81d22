package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
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

// fileID is how resources.FileID looks.
var fileID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// objectNamed returns the kind that the first argument names, and the name that the second one is, where there is one. What
// the gateway knows of a file or a directory is named by its path.
func objectNamed(args []string) (*resources.Kind, string, error) {
	kind, err := kindNamed(args[0])
	if err != nil || len(args) == 1 {
		return kind, "", err
	}

	name := args[1]
	if slices.Contains([]string{"FileStatus", "FileRoot", "DeletionGuard"}, kind.Name) && !fileID.MatchString(name) {
		path, err := filepath.Abs(name)
		if err != nil {
			return nil, "", fmt.Errorf("error finding %s: %w", name, err)
		}

		name = resources.FileID(path)
	}

	return kind, name, nil
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
