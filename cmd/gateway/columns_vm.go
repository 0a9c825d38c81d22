package main

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"gateway/api/client"
	"gateway/resources"
)

// common is what most statuses have.
type common struct {
	Conditions       []resources.Condition `json:"conditions"`
	LastError        string                `json:"lastError"`
	ObservedRevision int64                 `json:"observedRevision"`
}

// message says why the object is not as it should be: the message of the first condition that does not hold, or the last
// error.
func (c common) message() string {
	for _, condition := range c.Conditions {
		if condition.Status != resources.ConditionTrue && condition.Message != "" {
			return condition.Message
		}
	}

	return c.LastError
}

// holds is a condition's status, with its reason where it does not hold.
func holds(conditions []resources.Condition, typ string) string {
	c := resources.FindCondition(conditions, typ)

	switch {
	case c == nil:
		return ""
	case c.Status == resources.ConditionTrue || c.Reason == "":
		return string(c.Status)
	}

	return string(c.Status) + " (" + c.Reason + ")"
}

func vmValues(o *client.Object, now time.Time) ([]string, error) {
	spec, err := client.SpecOf[resources.VMConfigSpec](o)
	if err != nil {
		return nil, err
	}

	status, err := client.StatusOf[resources.VMStatusSpec](o)
	if err != nil {
		return nil, err
	}

	return []string{
		o.Metadata.Name, vmState(&status), status.Host, vmAddress(&status), holds(status.Conditions, resources.ConditionConverged),
		age(o.Metadata.Created, now),
		strconv.Itoa(spec.CPUs), spec.Memory.String(), number(o.Metadata.Revision), o.Metadata.Origin,
		common{Conditions: status.Conditions, LastError: status.LastError}.message(),
	}, nil
}

// vmState is the state with what stands above the document: stopped (override), running (held).
func vmState(status *resources.VMStatusSpec) string {
	state := status.State
	if state == "" {
		state = resources.StateUnknown
	}

	var above []string

	if status.Override != nil && status.Override.Power != "" {
		above = append(above, "override")
	}

	if status.Held {
		above = append(above, "held")
	}

	if len(above) > 0 {
		state += " (" + strings.Join(above, ", ") + ")"
	}

	return state
}

// vmAddress is one address: that which was seen, before that which is only declared.
func vmAddress(status *resources.VMStatusSpec) string {
	if len(status.Addresses) == 0 {
		return ""
	}

	seen := slices.IndexFunc(status.Addresses, func(a resources.Address) bool { return a.Source != "declared" })

	return status.Addresses[max(seen, 0)].Address
}

// number is a number, and nothing for none.
func number(n int64) string {
	if n == 0 {
		return ""
	}

	return strconv.FormatInt(n, 10)
}
