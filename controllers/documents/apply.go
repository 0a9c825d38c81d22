package documents

import (
	"context"
	"errors"
	"slices"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/config"
	"gateway/controllers/chain"
	"gateway/resources"
	"gateway/store"
)

// order in which the objects of one file are made: what VMs stand on first, so that the first VM does not wait. Kinds that
// are not in it come last.
var order = []string{"Host", "Network", "Image", "VM"}

func rank(kind string) int {
	if i := slices.Index(order, kind); i >= 0 {
		return i
	}

	return len(order)
}

// declaration is who declares documents, and with what right.
type declaration struct {
	origin resources.Origin
	cause  string
	// rule is nil for operators.
	rule *resources.ApplyRule
	// only, where not nil, are the objects (KIND/NAME) to apply; the others are passed over.
	only map[string]bool
	// withheld are the objects (KIND/NAME) that are not declared, because they were deleted by force.
	withheld map[string]bool
	// takeFrom are the declarers that give objects up.
	takeFrom map[string]resources.Origin
}

// outcome is what became of some documents.
type outcome struct {
	objects []resources.AppliedObject
	// refused are the reasons of those that were not taken in.
	refused []*store.AdmissionError
}

// apply declares the documents, each through admission. What admission says of an object is its outcome; an error is
// something that can be tried again. Objects come out in the order of the documents.
func (c *Controller) apply(ctx context.Context, w controller.ReaderWriter, documents []config.Document, d declaration) (outcome, error) {
	var out outcome

	sorted := slices.Clone(documents)
	slices.SortStableFunc(sorted, func(a, b config.Document) int { return rank(a.Kind.Name) - rank(b.Kind.Name) })

	for _, document := range sorted {
		name := objectName(document.Kind.Name, document.Resource.Metadata().ID())
		if d.only != nil && !d.only[name] {
			continue
		}

		if err := c.pacer.Wait(ctx); err != nil {
			return out, err
		}

		done, err := c.applyOne(ctx, w, document, d, name)

		refused, final := errors.AsType[*store.AdmissionError](err)
		if err != nil && !final {
			return out, err
		}

		if final {
			out.refused = append(out.refused, refused)

			// Both end when the object that is in the way is gone.
			if refused.Reason == resources.ReasonWaiting {
				done.Outcome = resources.OutcomeConflict
			}
		}

		done.Line = document.Line
		out.objects = append(out.objects, done)
		c.metrics.objects.WithLabelValues(done.Outcome).Inc()
	}

	slices.SortStableFunc(out.objects, func(a, b resources.AppliedObject) int { return a.Line - b.Line })

	return out, nil
}

// applyOne declares one object, or takes it away where the sender may ask for that.
func (c *Controller) applyOne(ctx context.Context, w controller.ReaderWriter, document config.Document, d declaration, name string) (resources.AppliedObject, error) {
	if d.withheld[name] {
		return resources.AppliedObject{
			Kind: document.Kind.Name, Name: document.Resource.Metadata().ID(), Outcome: resources.OutcomeDeleted, Message: messageWithheld,
		}, nil
	}

	if d.rule != nil && d.rule.Delete && wantsDeletion(document.Resource.Metadata()) {
		done := resources.AppliedObject{Kind: document.Kind.Name, Name: document.Resource.Metadata().ID(), Outcome: resources.OutcomeDeleted}

		err := c.admission.Delete(ctx, w, store.Removal{
			Kind: document.Kind, Name: done.Name, Origin: d.origin, Cause: d.cause, Rule: d.rule,
		})
		if err != nil {
			done.Outcome, done.Message = resources.OutcomeRefused, err.Error()
		}

		return done, err
	}

	return c.admission.Apply(ctx, w, store.Change{
		Object: document.Resource, Origin: d.origin, Cause: d.cause, Rule: d.rule,
		ExpectRevision: document.ExpectRevision, TakeFrom: d.takeFrom[name],
	})
}

// wantsDeletion reports whether a sender's document asks for its object to be taken away.
func wantsDeletion(md *resource.Metadata) bool {
	value, _ := md.Annotations().Get("delete")

	return value == "true"
}

// objectName is KIND/NAME.
func objectName(kind, name string) string { return kind + "/" + name }

// saveResult writes the result of an event.
func saveResult(ctx context.Context, w controller.Writer, id resource.ID, spec resources.ApplyResultSpec) error {
	return w.Modify(ctx, resources.NewApplyResult(id), func(r resource.Resource) error {
		*r.Spec().(*resources.ApplyResultSpec) = spec //nolint:forcetypeassert // made one line above

		return nil
	})
}

// resultOf reads the result of an event; nil where there is none.
func resultOf(ctx context.Context, r controller.UncachedReader, id resource.ID) (*resources.ApplyResult, error) {
	return chain.Get[*resources.ApplyResult](ctx, r, resources.NewApplyResult(id).Metadata())
}
