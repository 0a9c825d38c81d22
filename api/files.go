package api

import (
	"context"
	"fmt"

	"github.com/cosi-project/runtime/pkg/state"

	"gateway/config"
	"gateway/resources"
)

// FileStatus is the status of a file: what its source sees of it, and what became of its documents.
type FileStatus struct {
	resources.FileStatusSpec

	// Objects that the file declares, each with its outcome.
	Objects []resources.AppliedObject `json:"objects,omitempty"`
	// ApplyError says why its documents are not in force; the last good version is.
	ApplyError string `json:"applyError,omitempty"`
}

const fileKind = "FileStatus"

// withApplied adds to a file what became of its documents. Other objects stay as they are.
func (o *Operations) withApplied(ctx context.Context, object *config.Object) error {
	file, ok := object.Status.(*resources.FileStatusSpec)
	if !ok || object.Kind != fileKind {
		return nil
	}

	joined := FileStatus{FileStatusSpec: *file}

	applied, err := o.state.Get(ctx, resources.NewApplyResult(object.Metadata.Name).Metadata())
	if err != nil && !state.IsNotFoundError(err) {
		return fmt.Errorf("error reading what became of %s: %w", file.Path, err)
	}

	if err == nil {
		result := applied.Spec().(*resources.ApplyResultSpec) //nolint:forcetypeassert // one type a kind
		joined.Objects, joined.ApplyError = result.Objects, result.Error
	}

	object.Status = joined

	return nil
}
