package trigger

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/resources"
	"gateway/resources/expression"
)

// journalSource is the source of a trigger's entries in the journal; their name is the trigger's.
const journalSource = "trigger"

// maxHops is how often an event may go through a gateway before triggers leave it alone: it is in a loop.
const maxHops = 8

// Reasons of a trigger's entries in the journal, and outcomes in the metric.
const (
	ReasonFired       = "Fired"
	ReasonNotFired    = "NotFired"
	ReasonFailed      = "Failed"
	ReasonTooManyHops = "TooManyHops"
)

// verdict is what a trigger made of an event.
type verdict struct {
	reason, message string
	actions         []*resources.Action
}

// Verdict is what a trigger makes of an event.
type Verdict struct {
	// Concerned reports that the trigger is about events of this source and name; otherwise it does not look.
	Concerned bool
	// Reason is Fired, NotFired, Failed or TooManyHops, and Message says more.
	Reason, Message string
	// Actions are what a trigger that fires asks for, in the order of its do.
	Actions []*resources.Action
}

// Evaluate lets a trigger look at an event, and the objects that it names, as the controller does. Nothing is written: it is
// for trying triggers out.
func Evaluate(ctx context.Context, trigger *resources.Trigger, event resource.Resource, objects []expression.Object) (Verdict, error) {
	o := observe(event)
	o.input.Objects, o.gathered = objects, true

	if o.attributes == nil {
		return Verdict{}, fmt.Errorf("%s %q is not an event", event.Metadata().Type(), event.Metadata().ID())
	}

	if !o.concerns(trigger) {
		return Verdict{}, nil
	}

	v := (&programs{}).evaluate(ctx, trigger, o)

	return Verdict{Concerned: true, Reason: v.reason, Message: v.message, Actions: v.actions}, nil
}

// evaluate decides whether the trigger fires, and makes its actions: all of them or none.
func (p *programs) evaluate(ctx context.Context, trigger *resources.Trigger, o *observation) verdict {
	if o.attributes.Hops >= maxHops {
		return verdict{reason: ReasonTooManyHops, message: fmt.Sprintf("the event went through a gateway %d times: a loop", o.attributes.Hops)}
	}

	o.load()

	compiled, err := p.of(trigger)
	if err != nil {
		return verdict{reason: ReasonFailed, message: err.Error()}
	}

	if compiled.objects && o.refusal != "" {
		return verdict{reason: ReasonFailed, message: fmt.Sprintf("objects: %s (event %s)", o.refusal, o.attributes.ID)}
	}

	if compiled.when != nil {
		yes, err := compiled.when.EvalBool(ctx, o.input)

		switch {
		case err != nil:
			return verdict{reason: ReasonFailed, message: fmt.Sprintf("when: %s (event %s)", err, o.attributes.ID)}
		case !yes:
			return verdict{reason: ReasonNotFired, message: "when is false: " + compiled.when.String()}
		}
	}

	actions := make([]*resources.Action, len(compiled.steps))

	for i, step := range compiled.steps {
		action := resources.NewAction(resources.EventID(o.key, trigger.Metadata().ID(), strconv.Itoa(i)))
		spec := action.TypedSpec()
		spec.By = "trigger:" + trigger.Metadata().ID()
		spec.Cause = o.attributes.ID
		spec.Hops = o.attributes.Hops // the sink counts this gateway

		if err := step.fill(ctx, o, spec); err != nil {
			return verdict{reason: ReasonFailed, message: fmt.Sprintf("do[%d]: %s (event %s)", i, err, o.attributes.ID)}
		}

		action.Metadata().Finalizers().Add(spec.Finalizer())
		resources.SetCause(action.Metadata(), o.attributes.ID)

		actions[i] = action
	}

	return verdict{reason: ReasonFired, message: fmt.Sprintf("%d actions", len(actions)), actions: actions}
}

// fill makes the specification of the action from the event.
func (s *step) fill(ctx context.Context, o *observation, spec *resources.ActionSpec) error {
	spec.Verb, spec.Target = s.verb, s.target.Clone()

	if s.subject != nil {
		subject, err := s.subject.EvalText(ctx, o.input)
		if err != nil {
			return fmt.Errorf("error making the subject: %w", err)
		}

		spec.Subject = subject
	}

	switch {
	case s.body != nil:
		body, err := s.body.Eval(ctx, o.input)
		if err != nil {
			return err
		}

		spec.Body = body
	case s.verb == resources.ActionPublish:
		body, err := json.Marshal(o.attributes)
		if err != nil {
			return fmt.Errorf("error writing the event's attributes: %w", err)
		}

		spec.Body = body
	}

	return nil
}
