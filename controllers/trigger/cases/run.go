package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gateway/controllers/trigger"
	"gateway/resources"
)

// Result is what became of a case.
type Result struct {
	Name string `json:"name"`
	// Line of the case in its file.
	Line int `json:"line"`
	// Differences are empty where everything was as expected: lines for people.
	Differences []string `json:"differences,omitempty"`
	// Triggers are all those that looked at the event, in the order of their names.
	Triggers []Looked `json:"triggers"`
}

// Looked is what a trigger made of the event.
type Looked struct {
	Trigger string `json:"trigger"`
	// Reason is Fired, NotFired, Failed or TooManyHops.
	Reason  string                    `json:"reason"`
	Message string                    `json:"message,omitempty"`
	Actions []resources.TriggerAction `json:"actions,omitempty"`
}

// Run lets the triggers look at every case's event.
func Run(ctx context.Context, file File, triggers []*resources.Trigger) ([]Result, error) {
	results := make([]Result, 0, len(file.Cases))

	for i := range file.Cases {
		result, err := file.Cases[i].run(ctx, triggers)
		if err != nil {
			return nil, fmt.Errorf("case %q: %w", file.Cases[i].Name, err)
		}

		results = append(results, result)
	}

	return results, nil
}

func (c *Case) run(ctx context.Context, triggers []*resources.Trigger) (Result, error) {
	result := Result{Name: c.Name, Line: c.line, Triggers: []Looked{}}

	event, err := c.Event.resource(resources.EventID("case", c.Name))
	if err != nil {
		return result, err
	}

	objects, err := c.objects()
	if err != nil {
		return result, err
	}

	for _, t := range triggers {
		v, err := trigger.Evaluate(ctx, t, event, objects)
		if err != nil {
			return result, err
		}

		if !v.Concerned {
			continue
		}

		looked := Looked{Trigger: t.Metadata().ID(), Reason: v.Reason, Message: v.Message}
		for _, a := range v.Actions {
			looked.Actions = append(looked.Actions, written(a.TypedSpec()))
		}

		result.Triggers = append(result.Triggers, looked)
	}

	result.Differences, err = c.Expect.compare(result.Triggers)

	return result, err
}

// written is an action as a trigger's do has it.
func written(spec *resources.ActionSpec) (a resources.TriggerAction) {
	switch spec.Verb {
	case resources.ActionSync:
		a.Sync = spec.Target
	case resources.ActionDelete:
		a.Delete = spec.Target
	case resources.ActionApply:
		a.Apply = &resources.TriggerApply{Document: spec.Body}
	case resources.ActionPatch:
		a.Patch = &resources.TriggerPatch{Kind: spec.Target.Kind, Name: spec.Target.Name, Selector: spec.Target.Selector, Merge: spec.Body}
	case resources.ActionPublish:
		a.Publish = &resources.TriggerPublish{Subject: spec.Subject, Data: spec.Body}
	}

	return a
}

// compare returns the differences between what is expected and what the triggers made of the event.
func (e *Expect) compare(looked []Looked) ([]string, error) {
	var (
		differences   []string
		fired, failed []string
		actions       []resources.TriggerAction
	)

	for _, l := range looked {
		switch l.Reason {
		case trigger.ReasonFired:
			fired = append(fired, l.Trigger)
			actions = append(actions, l.Actions...)
		case trigger.ReasonNotFired:
		default:
			failed = append(failed, l.Trigger)
		}
	}

	differences = append(differences, named("fired", e.Fired, fired, looked)...)
	differences = append(differences, named("failed", e.Failed, failed, looked)...)

	if e.Actions == nil {
		return differences, nil
	}

	for i := range min(len(actions), len(e.Actions)) {
		if want := e.Actions[i].Publish; want != nil && len(want.Data) == 0 && actions[i].Publish != nil {
			actions[i].Publish = &resources.TriggerPublish{Subject: actions[i].Publish.Subject}
		}
	}

	want, err := lines(e.Actions)
	if err != nil {
		return nil, err
	}

	got, err := lines(actions)
	if err != nil {
		return nil, err
	}

	if !slices.Equal(want, got) {
		differences = append(differences, "actions (- expected, + what the triggers ask for):")
		differences = append(differences, diff(want, got)...)
	}

	return differences, nil
}

// named compares two sets of triggers, and says of each that differs why it is as it is.
func named(what string, want, got []string, looked []Looked) (differences []string) {
	for _, name := range want {
		if slices.Contains(got, name) {
			continue
		}

		reason := "it is not in the documents, or not about events of this source and name"
		if i := slices.IndexFunc(looked, func(l Looked) bool { return l.Trigger == name }); i >= 0 {
			reason = looked[i].Reason + ": " + looked[i].Message
		}

		differences = append(differences, fmt.Sprintf("- %s: %s (%s)", what, name, reason))
	}

	for _, name := range got {
		if !slices.Contains(want, name) {
			i := slices.IndexFunc(looked, func(l Looked) bool { return l.Trigger == name })
			differences = append(differences, fmt.Sprintf("+ %s: %s (%s: %s)", what, name, looked[i].Reason, looked[i].Message))
		}
	}

	return differences
}

// lines are the actions as JSON, one a line, the same value always as the same text.
func lines(actions []resources.TriggerAction) ([]string, error) {
	all := make([]string, 0, len(actions))

	for _, action := range actions {
		text, err := json.Marshal(action)
		if err != nil {
			return nil, fmt.Errorf("error writing an action: %w", err)
		}

		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()

		var value any
		if err := decoder.Decode(&value); err != nil {
			return nil, fmt.Errorf("error reading an action: %w", err)
		}

		var out strings.Builder

		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)

		if err := encoder.Encode(value); err != nil {
			return nil, fmt.Errorf("error writing an action: %w", err)
		}

		all = append(all, strings.TrimSpace(out.String()))
	}

	return all, nil
}

// diff shows what is only in one of two lists, in their order, with what both have between. A trigger has at most 32 actions,
// so that a table of both lengths is small.
func diff(want, got []string) (out []string) {
	common := make([][]int, len(want)+1)
	for i := range common {
		common[i] = make([]int, len(got)+1)
	}

	for i := len(want) - 1; i >= 0; i-- {
		for j := len(got) - 1; j >= 0; j-- {
			if want[i] == got[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}

	i, j := 0, 0

	for i < len(want) || j < len(got) {
		switch {
		case i < len(want) && j < len(got) && want[i] == got[j]:
			out = append(out, "  "+want[i])
			i, j = i+1, j+1
		case j == len(got) || i < len(want) && common[i+1][j] >= common[i][j+1]:
			out = append(out, "- "+want[i])
			i++
		default:
			out = append(out, "+ "+got[j])
			j++
		}
	}

	return out
}
