package trigger

import (
	"fmt"
	"sync"

	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/resources"
	"gateway/resources/expression"
)

// maxPrograms is how many triggers' programs are kept; compiling one takes about a millisecond.
const maxPrograms = 1_000

// compiled is a trigger ready to look at events.
type compiled struct {
	// when is nil where there is no condition.
	when  *expression.Program
	steps []step
	// objects reports whether one of the expressions looks at objects.
	objects bool
}

// step is one thing to do, its templates compiled.
type step struct {
	verb          string
	target        *resources.Target
	body, subject *expression.Template
}

// programs keeps what triggers compile to. The zero value is ready to use.
type programs struct {
	mu   sync.Mutex // guards byID
	byID map[resource.ID]program
}

// program is what one version of a trigger compiled to.
type program struct {
	version  string
	compiled *compiled
	err      error
}

// of returns the compiled trigger.
func (p *programs) of(trigger *resources.Trigger) (*compiled, error) {
	md := trigger.Metadata()
	// The uid tells a trigger from a later one of its name, whose versions start again.
	version := resources.UIDOf(md) + "@" + md.Version().String() + "@" + md.Created().String()

	p.mu.Lock()
	known, ok := p.byID[md.ID()]
	p.mu.Unlock()

	if ok && known.version == version {
		return known.compiled, known.err
	}

	made, err := compile(trigger.TypedSpec())

	p.mu.Lock()
	defer p.mu.Unlock()

	if p.byID == nil || len(p.byID) >= maxPrograms {
		p.byID = map[resource.ID]program{} // the rest is compiled again when it is needed
	}

	p.byID[md.ID()] = program{version: version, compiled: made, err: err}

	return made, err
}

func compile(spec *resources.TriggerSpec) (*compiled, error) {
	out := &compiled{}

	if spec.When != "" {
		when, err := expression.CompileCondition(spec.When)
		if err != nil {
			return nil, fmt.Errorf("error compiling when: %w", err)
		}

		out.when, out.objects = when, when.UsesObjects()
	}

	for i, do := range spec.Do {
		made, err := compileStep(do)
		if err != nil {
			return nil, fmt.Errorf("error compiling do[%d]: %w", i, err)
		}

		out.steps = append(out.steps, made)
		out.objects = out.objects || made.body.UsesObjects() || made.subject.UsesObjects()
	}

	return out, nil
}

func compileStep(do resources.TriggerAction) (s step, err error) {
	switch {
	case do.Sync != nil:
		s = step{verb: resources.ActionSync, target: do.Sync}
	case do.Delete != nil:
		s = step{verb: resources.ActionDelete, target: do.Delete}
	case do.Apply != nil:
		s = step{verb: resources.ActionApply}
		s.body, err = expression.Interpolate(do.Apply.Document)
	case do.Patch != nil:
		s = step{verb: resources.ActionPatch, target: &resources.Target{Kind: do.Patch.Kind, Name: do.Patch.Name, Selector: do.Patch.Selector}}
		s.body, err = expression.Interpolate(do.Patch.Merge)
	case do.Publish != nil:
		s = step{verb: resources.ActionPublish}

		if s.subject, err = expression.InterpolateText(do.Publish.Subject); err == nil && len(do.Publish.Data) > 0 {
			s.body, err = expression.Interpolate(do.Publish.Data)
		}
	default:
		err = fmt.Errorf("nothing to do: sync, apply, patch, delete or publish is needed")
	}

	return s, err
}
