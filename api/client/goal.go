package client

import (
	"fmt"
	"slices"
	"strings"

	"gateway/resources"
)

// Goal is what is waited for of one object.
type Goal struct {
	// Kind is the kind's exact name (VM).
	Kind, Name string
	// check reports whether the object, which exists, is as it should be, and why it is not yet.
	check func(*Object) (reached bool, why string, err error)
	// gone: the goal is that there is no such object.
	gone bool
}

// String is the object: VM/web-1.
func (g Goal) String() string { return g.Kind + "/" + g.Name }

// observed is what all statuses have that can be waited for.
type observed struct {
	State            string                `json:"state"`
	Conditions       []resources.Condition `json:"conditions"`
	ObservedRevision *int64                `json:"observedRevision"`
	LastError        string                `json:"lastError"`
}

// states are those of a VM.
var states = []string{
	resources.StateRunning, resources.StateStopped, resources.StatePaused, resources.StateCrashed, resources.StateMissing, resources.StateUnknown,
}

// ParseGoal reads what --for takes: condition=TYPE, condition=TYPE=STATUS, state=STATE, create or delete.
func ParseGoal(kind, name, text string) (Goal, error) {
	goal := Goal{Kind: kind, Name: name}
	what, value, _ := strings.Cut(text, "=")

	switch {
	case text == "delete":
		goal.gone = true
	case text == "create":
		goal.check = func(*Object) (bool, string, error) { return true, "", nil }
	case what == "condition" && value != "":
		typ, status, given := strings.Cut(value, "=")
		if !given {
			status = string(resources.ConditionTrue)
		}

		typ, err := conditionType(kind, typ)
		if err != nil {
			return goal, err
		}

		goal.check = hasCondition(typ, resources.ConditionStatus(status))
	case what == "state" && kind != "VM":
		return goal, fmt.Errorf("a %s has no state: use condition=TYPE, create or delete", kind)
	case what == "state" && value != "":
		if !slices.Contains(states, value) {
			return goal, fmt.Errorf("%q is not a state: use one of %s", value, strings.Join(states, ", "))
		}

		goal.check = hasState(value)
	default:
		return goal, fmt.Errorf("%q can't be waited for: use condition=TYPE, state=STATE, create or delete", text)
	}

	return goal, nil
}

// conditionTypes are the types of the conditions of the kinds that are declared.
var conditionTypes = map[string][]string{
	"VM": {
		resources.ConditionAccepted, resources.ConditionPlaced, resources.ConditionNetworkReady, resources.ConditionImageReady,
		resources.ConditionConverged,
	},
	"Host": {resources.ConditionConnected}, "Network": {resources.ConditionReady}, "Image": {resources.ConditionReady},
	"Webhook": {resources.ConditionReady}, "Schedule": {resources.ConditionReady}, "Subscription": {resources.ConditionReady}, "Trigger": {},
}

// conditionType finds the type of a condition of the kind, in any case. What can never hold is not waited for.
func conditionType(kind, typ string) (string, error) {
	types, known := conditionTypes[kind]

	switch i := slices.IndexFunc(types, func(t string) bool { return strings.EqualFold(t, typ) }); {
	case i >= 0:
		return types[i], nil
	case !known:
		return typ, nil
	case len(types) == 0:
		return typ, fmt.Errorf("a %s has no conditions: use create or delete", kind)
	}

	return typ, fmt.Errorf("%q is not a condition of a %s: use one of %s", typ, kind, strings.Join(types, ", "))
}

// Converged is the goal that an object which was declared in a revision is in force: a VM is converged, a host connected, a
// network ready, where it has such a condition. Others are in force once they are declared.
func Converged(kind, name string, revision int64) (goal Goal, ok bool) {
	goal = Goal{Kind: kind, Name: name}

	typ := map[string]string{"VM": resources.ConditionConverged, "Host": resources.ConditionConnected, "Network": resources.ConditionReady}[kind]
	if typ == "" {
		return goal, false
	}

	condition := hasCondition(typ, resources.ConditionTrue)
	goal.check = func(o *Object) (bool, string, error) {
		if o.Metadata.Revision < revision {
			return false, "the new revision is not there yet", nil
		}

		status, err := StatusOf[observed](o)
		if err != nil {
			return false, "", err
		}

		// A network that no VM uses has nothing that could become ready.
		if kind == "Network" && resources.FindCondition(status.Conditions, typ) == nil {
			return true, "", nil
		}

		return condition(o)
	}

	return goal, true
}

// hasCondition waits for a condition that is about the current revision.
func hasCondition(typ string, want resources.ConditionStatus) func(*Object) (bool, string, error) {
	return func(o *Object) (bool, string, error) {
		status, err := StatusOf[observed](o)
		if err != nil {
			return false, "", err
		}

		condition := resources.FindCondition(status.Conditions, typ)

		switch {
		case condition == nil:
			return false, "nothing is known of it yet", nil
		case status.ObservedRevision != nil && *status.ObservedRevision < o.Metadata.Revision:
			return false, fmt.Sprintf("revision %d is not looked at yet", o.Metadata.Revision), nil
		case strings.EqualFold(string(condition.Status), string(want)):
			return true, "", nil
		}

		return false, explainAmong(status.Conditions, condition), nil
	}
}

// hasState waits for a state of a VM.
func hasState(want string) func(*Object) (bool, string, error) {
	return func(o *Object) (bool, string, error) {
		status, err := StatusOf[observed](o)
		if err != nil {
			return false, "", err
		}

		if status.State == want {
			return true, "", nil
		}

		why := "its state is " + orUnknown(status.State)
		if c := resources.FindCondition(status.Conditions, resources.ConditionConverged); c != nil && c.Status != resources.ConditionTrue {
			why += ": " + explainAmong(status.Conditions, c)
		}

		return false, why, nil
	}
}

func orUnknown(state string) string {
	if state == "" {
		return resources.StateUnknown
	}

	return state
}

// explainAmong explains a condition; where it only waits, with the other one that it waits for.
func explainAmong(conditions []resources.Condition, c *resources.Condition) string {
	if c.Reason == resources.ReasonWaiting {
		for i := range conditions {
			other := &conditions[i]
			if other.Type != c.Type && other.Status == resources.ConditionFalse && other.Reason != resources.ReasonWaiting {
				return Explain(c) + ": " + Explain(other)
			}
		}
	}

	return Explain(c)
}

// Explain is a condition's reason with its message: Unschedulable: no host fits.
func Explain(c *resources.Condition) string {
	if c.Message == "" || c.Message == c.Reason {
		return c.Reason
	}

	return c.Reason + ": " + c.Message
}
