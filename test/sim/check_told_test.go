package sim

import (
	"encoding/json"
	"strconv"
	"strings"

	"gateway/store"
)

// entries is the journal, the oldest first.
func (c *check) entries() []store.Entry {
	if c.journal != nil {
		return c.journal
	}

	entries, err := c.process.store.Journal().Query(ctx(), store.Query{Limit: 100_000})
	if err != nil {
		c.wrong("journal: %v", err)
	}

	c.journal = entries

	return entries
}

// told checks what is published of events: each that the journal has, dead ones too, is in its stream, in order, and nothing
// else is.
func (c *check) told() {
	streams := map[store.Class]string{store.ClassEvent: names.EventStream(), store.ClassDead: names.DeadStream()}
	known := map[uint64]*store.Entry{}
	there := map[store.Class]map[uint64]bool{}

	for i := range c.entries() {
		known[c.journal[i].Number] = &c.journal[i]
	}

	for class, stream := range streams {
		there[class] = map[uint64]bool{}
		newest := uint64(0)

		for _, m := range c.edge.stored(stream) {
			id, text, _ := strings.Cut(m.Header.Get("Nats-Msg-Id"), "/")
			number, err := strconv.ParseUint(text, 10, 64)
			e := known[number]

			if err != nil || e == nil || e.EventID != id || e.Class != class {
				c.wrong("message %s/%s of %s tells of what the journal does not have: %+v", id, text, stream, e)
			}

			if number < newest && !there[class][number] {
				c.wrong("entry %d came after %d into %s", number, newest, stream)
			}

			newest, there[class][number] = max(newest, number), true
		}
	}

	for _, e := range c.entries() {
		if streams[e.Class] != "" && !there[e.Class][e.Number] {
			c.wrong("entry %d, event %s of %s, is not in %s", e.Number, e.EventID, e.Source, streams[e.Class])
		}
	}

	c.alerted()
}

// alerted checks what triggers publish: a message of each event that they wait for, or a dead letter that tells why not.
func (c *check) alerted() {
	alerts, dead, events := map[string]bool{}, map[string]bool{}, map[string]bool{}

	for _, m := range c.edge.stored(outStream) {
		var body struct{ Event string }
		if err := json.Unmarshal(m.Data, &body); err != nil {
			c.wrong("alert %s: %v", m.Data, err)
		}

		alerts[body.Event] = true
	}

	for _, e := range c.entries() {
		if e.Class == store.ClassDead && e.Source == "trigger" {
			dead[e.EventID] = true
		}
	}

	for _, e := range c.entries() {
		if e.Class != store.ClassEvent || e.Name != "look" && e.Name != signalling {
			continue
		}

		events[e.EventID] = true

		if !alerts[e.EventID] && !dead[e.EventID] {
			c.wrong("nobody was alerted of event %s of %s %s", e.EventID, e.Source, e.Name)
		}
	}

	for id := range alerts {
		if !events[id] {
			c.wrong("an alert tells of event %s, which the journal does not have", id)
		}
	}
}
