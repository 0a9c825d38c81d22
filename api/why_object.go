package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cosi-project/runtime/pkg/state"

	"gateway/resources"
	"gateway/store"
)

// WhyObject tells what led to an object as it is: a chain for each of the newest causes that changed it.
func (o *Operations) WhyObject(ctx context.Context, kind *resources.Kind, name string) (Story, error) {
	story := Story{About: kind.Name + "/" + name, Chains: []Chain{}}

	now, causes, err := o.now(ctx, kind, name)
	if err != nil {
		return story, err
	}

	story.Now = now

	query := store.Query{Object: story.About, Limit: maxStory}
	if kind.Name == fileKind {
		query = store.Query{Source: resources.SourceFile, Name: name, Limit: maxStory}
	}

	entries, err := o.Store.Journal().Query(ctx, query)
	if err != nil {
		return story, fmt.Errorf("error reading the journal: %w", err)
	}

	if now.Deleted && len(entries) == 0 {
		return story, fmt.Errorf("%s %q: %w", kind.Name, name, errNotFound)
	}

	for _, e := range slices.Backward(entries) {
		causes = append(causes, e.EventID)
	}

	objects, err := o.concerned(ctx, kind, name)
	if err != nil {
		return story, err
	}

	seen := map[string]bool{"": true}

	for _, cause := range causes {
		if seen[cause] || len(story.Chains) == maxChains {
			continue
		}

		seen[cause] = true

		chain, err := o.chain(ctx, cause, objects)
		if err != nil {
			return story, err
		}

		if story.NATS == "" {
			if err := o.addPublished(ctx, &chain, story.About); err != nil {
				story.NATS = err.Error()
			}
		}

		story.Chains = append(story.Chains, chain)
	}

	slices.SortStableFunc(story.Chains, func(a, b Chain) int { return begun(a).Compare(begun(b)) })

	return story, nil
}

// begun is when a chain's first step was; one without any is of long ago.
func begun(c Chain) time.Time {
	if len(c.Steps) == 0 {
		return time.Time{}
	}

	return c.Steps[0].Time
}

// concerned are the objects whose steps tell something of this one: itself and, of a VM, its networks. nil is all: what a file
// led to are its objects.
func (o *Operations) concerned(ctx context.Context, kind *resources.Kind, name string) ([]string, error) {
	if kind.Name == fileKind {
		return nil, nil
	}

	objects := []string{kind.Name + "/" + name}
	if kind.Name != "VM" {
		return objects, nil
	}

	vm, err := specOf[resources.VMConfigSpec](ctx, o.state, "VM", name)
	if err != nil || vm == nil {
		return objects, err
	}

	for _, n := range vm.Interfaces {
		if object := "Network/" + n.Network; !slices.Contains(objects, object) {
			objects = append(objects, object)
		}
	}

	return objects, nil
}

// now reads how the object is, and the causes that it carries, the newest first.
func (o *Operations) now(ctx context.Context, kind *resources.Kind, name string) (*Now, []string, error) {
	now := &Now{}

	declared, err := o.state.Get(ctx, kind.Pointer(name))
	if state.IsNotFoundError(err) {
		now.Deleted = true

		return now, nil, nil
	}

	if err != nil {
		return nil, nil, fmt.Errorf("error reading %s %q: %w", kind.Name, name, err)
	}

	md := declared.Metadata()
	now.Revision, now.Origin, now.Cause = resources.RevisionOf(md), resources.OriginOf(md).String(), resources.CauseOf(md)

	causes, err := o.observed(ctx, now, kind, name)
	if err != nil {
		return nil, nil, err
	}

	return now, append(causes, resources.CauseOf(md)), nil
}

// observed fills in what was observed of the object, and returns the causes of it.
func (o *Operations) observed(ctx context.Context, now *Now, kind *resources.Kind, name string) (causes []string, err error) {
	switch kind.Name {
	case "VM":
		status, err := specOf[resources.VMStatusSpec](ctx, o.state, "VMStatus", name)
		if err != nil {
			return nil, err
		}

		if status != nil {
			now.State, now.Host, now.Conditions, now.Cause = status.State, status.Host, status.Conditions, status.Cause
			causes = append(causes, status.Cause)
		}

		override, err := specOf[resources.OverrideSpec](ctx, o.state, "Override", name)
		if err != nil {
			return nil, err
		}

		if override != nil {
			causes = append(causes, override.Cause)
		}
	case "Host":
		status, err := specOf[resources.HostStatusSpec](ctx, o.state, "HostStatus", name)
		if err != nil {
			return nil, err
		}

		if status != nil {
			now.Conditions = status.Conditions
		}
	case "Network":
		status, err := specOf[resources.NetworkStatusSpec](ctx, o.state, "NetworkStatus", name)
		if err != nil {
			return nil, err
		}

		if status != nil {
			now.Conditions = status.Conditions
		}
	}

	return causes, nil
}
