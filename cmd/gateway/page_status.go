package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"gateway/api"
	"gateway/api/client"
	"gateway/resources"
)

// observed writes what was observed: for a VM in words, otherwise as it is, and the conditions as a table.
func (p *page) observed(d *client.Description) error {
	status, err := client.StatusOf[common](&d.Object)
	if err != nil {
		return err
	}

	if d.Object.Kind == "VM" {
		if err := p.vm(&d.Object); err != nil {
			return err
		}
	} else if len(d.Object.Spec) > 0 {
		if err := p.otherStatus(d.Object.Status); err != nil {
			return err
		}
	}

	now := time.Now()
	rows := make([][]string, len(status.Conditions))

	for i, c := range status.Conditions {
		rows[i] = []string{c.Type, string(c.Status), c.Reason, age(c.Since, now), c.Message}
	}

	p.rows("Conditions", []string{"TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"}, rows)

	if status.ObservedRevision < d.Object.Metadata.Revision && len(d.Object.Status) > 0 {
		p.section("Note")
		p.item("the status is about revision %d; revision %d has not been looked at yet", status.ObservedRevision, d.Object.Metadata.Revision)
	}

	return nil
}

// vm writes the status of a VM.
func (p *page) vm(o *client.Object) error {
	s, err := client.StatusOf[resources.VMStatusSpec](o)
	if err != nil {
		return err
	}

	p.line("State", "%s", vmState(&s))
	p.line("Waits for", "%s", waitsFor(s.Conditions))

	if !s.LastKnown.IsZero() {
		p.line("Last known", "%s", moment(s.LastKnown))
	}

	p.line("Host", "%s", s.Host)
	p.line("Domain", "%s", s.DomainUUID)

	if !s.Started.IsZero() {
		p.line("Started", "%s", moment(s.Started))
	}

	p.line("Crashes", "%s", number(int64(s.Crashes)))
	p.line("Restart for", "%s", strings.Join(s.RestartRequired, ", "))
	p.line("Last error", "%s", s.LastError)
	p.line("Cause", "%s", s.Cause)

	rows := make([][]string, len(s.Addresses))
	for i, a := range s.Addresses {
		rows[i] = []string{a.Address, a.Source, a.Network, a.MAC}
	}

	p.rows("Addresses", []string{"ADDRESS", "SOURCE", "NETWORK", "MAC"}, rows)

	return nil
}

// waitsFor explains the first step, in the order in which they are taken, that keeps a VM from being converged.
func waitsFor(conditions []resources.Condition) string {
	if c := resources.FindCondition(conditions, resources.ConditionConverged); c != nil && c.Status == resources.ConditionTrue {
		return ""
	}

	for _, step := range []string{
		resources.ConditionAccepted, resources.ConditionPlaced, resources.ConditionImageReady, resources.ConditionNetworkReady,
		resources.ConditionConverged,
	} {
		if c := resources.FindCondition(conditions, step); c != nil && c.Status == resources.ConditionFalse {
			return client.Explain(c)
		}
	}

	return ""
}

// otherStatus writes a status without its conditions, which have a table.
func (p *page) otherStatus(status json.RawMessage) error {
	if len(status) == 0 {
		return nil
	}

	var fields map[string]json.RawMessage
	if err := json.Unmarshal(status, &fields); err != nil {
		return err
	}

	delete(fields, "conditions")

	text, err := json.Marshal(fields)
	if err != nil {
		return err
	}

	return p.yaml("Status", text)
}

// machine writes where a VM is, and what its interfaces have.
func (p *page) machine(d *client.Description) {
	if place := d.Placement; place != nil {
		p.section("Placement")
		p.item("%s: %s", cmp.Or(place.Host, "nowhere"), strings.TrimSuffix(place.Reason+": "+place.Message, ": "))

		for _, refusal := range place.Hosts {
			p.item("not on %s: %s", refusal.Host, refusal.Reason)
		}
	}

	if nets := d.Networks; nets != nil && (len(nets.Interfaces) > 0 || !nets.Ready) {
		p.section("Networks")
		p.item("%s", strings.TrimSuffix(nets.Reason+": "+nets.Message, ": "))

		for _, b := range nets.Interfaces {
			p.item("%s: %s %s", b.Network, b.MAC, b.Address)
		}
	}
}

// compact is a JSON text without the spaces that came with it.
func compact(text []byte) string {
	var out bytes.Buffer
	if json.Compact(&out, text) != nil {
		return string(text)
	}

	return out.String()
}

// overridden is what an override changes: the patch of the specification, and that of the labels.
func overridden(o *resources.OverrideSpec) string {
	var patches []string

	if len(o.Patch) > 0 {
		patches = append(patches, compact(o.Patch))
	}

	if len(o.Labels) > 0 {
		patches = append(patches, "labels "+compact(o.Labels))
	}

	return strings.Join(patches, ", ")
}

// standing writes what stands above the document, and what stands in the way.
func (p *page) standing(d *client.Description) {
	if o := d.Override; o != nil && !o.IsEmpty() {
		p.section("Override")

		p.item("%s by %s, %s", overridden(o), o.By, ago(o.Since, time.Now()))

		if !o.Until.IsZero() {
			p.item("until %s (%s)", o.Until.Local().Format("2006-01-02 15:04:05"), until(o.Until, time.Now()))
		}
	}

	if h := d.Hold; h != nil {
		p.section("Hold")
		p.item("by %s, %s %s", h.By, ago(h.Since, time.Now()), h.Reason)
	}

	if d.Deleting {
		p.section("Deleting")
		p.item("waits for %s", cmp.Or(strings.Join(d.Finalizers, ", "), "nothing any more"))

		if len(d.UsedBy) > 0 {
			p.item("used by %s", listed(d.UsedBy))
		}
	}

	p.drained(d.Drain)

	if len(d.Conflicts) > 0 {
		p.section("Conflicts")

		for _, conflict := range d.Conflicts {
			p.item("%s", conflict)
		}
	}
}

// drained writes what a drain of a host would do: first who stays.
func (p *page) drained(vms []api.DrainedVM) {
	if len(vms) == 0 {
		return
	}

	p.section("What a drain does")

	var stays, moves []string

	for _, v := range vms {
		if v.To == "" {
			stays = append(stays, v.VM+" stays: "+v.Obstacle)
		} else {
			moves = append(moves, v.VM+" moves to "+v.To)
		}
	}

	for _, lines := range [][]string{stays, moves} {
		for i, line := range lines {
			if i == resources.MaxListed {
				p.item("and %d more of these", len(lines)-i)

				break
			}

			p.item("%s", line)
		}
	}
}
