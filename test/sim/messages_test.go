package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"gateway/resources"
	"gateway/store"
)

// sent is a message that somebody put into the stream that subscriptions listen to.
type sent struct {
	subject string
	// vm is what it declares, by its name; declares nil: the VM is to go.
	name     string
	declares object
	// bad reports whether it can't be taken.
	bad bool
	at  time.Time
}

// put puts a message into the stream. Its sender has a connection of its own.
func (w *world) put(m sent, data []byte) {
	w.edge.mu.Lock()
	defer w.edge.mu.Unlock()

	if err := w.edge.store(&nats.Msg{Subject: m.subject, Data: data, Header: nats.Header{}}); err != nil {
		panic(err)
	}

	m.at = w.edge.streams[opsStream].messages[len(w.model.sent)].at
	w.model.sent = append(w.model.sent, m)
}

// message declares a VM by a message, changes it, or takes it away.
func (w *world) message() {
	name := msgName(w.rand.IntN(msgCount))
	if w.rand.IntN(4) == 0 {
		w.publishGone(name)

		return
	}

	w.model.version++
	d := randomVM(w.rand, name, w.model.version)
	w.publishVM(name, d, d)
}

func (w *world) publishGone(name string) {
	d := randomVM(w.rand, name, w.model.version)
	d["metadata"].(object)["annotations"] = object{"delete": "true"}
	w.publishVM(name, d, nil)
}

func (w *world) publishVM(name string, d, declares object) {
	text, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}

	w.trace.add("message about %s (gone %v), the %d.: %s %s", name, declares == nil, len(w.model.sent)+1, d["metadata"], text)
	w.put(sent{subject: opsPrefix + "vm." + name, name: name, declares: declares}, text)
}

// signal sends a message that has a target and a trigger.
func (w *world) signal() {
	w.trace.add("message that signals, the %d.", len(w.model.sent)+1)
	w.put(sent{subject: opsPrefix + "signal"}, []byte("now"))
}

// badMessage sends one that can't be taken.
func (w *world) badMessage() {
	w.trace.add("message that is no JSON, the %d.", len(w.model.sent)+1)
	w.put(sent{subject: opsPrefix + "vm.bad", bad: true}, []byte("{no"))
}

// untilDeclared waits until what connects the outside is declared, durably: from then on every event has its trigger.
func (w *world) untilDeclared() {
	for {
		w.pass(time.Duration(1+w.rand.IntN(9)) * time.Second)

		triggers := list[*resources.Trigger](w, "Trigger")
		if triggers["on-look"] != nil && triggers["on-signal"] != nil && w.process.store.Barrier(ctx()) == nil {
			return
		}
	}
}

// key is how the source tells the deliveries of a stream apart.
func (s *sent) key(sequence int) string {
	return fmt.Sprintf("%s/%d/%d", opsStream, sequence, s.at.UnixNano())
}

// listens returns the subscription whose message it is.
func (s *sent) listens() string {
	if s.subject == opsPrefix+"signal" {
		return signalling
	}

	return declaring
}

func (s *sent) eventID(sequence int) string {
	return resources.EventID(resources.SourceSubscription, s.listens(), s.key(sequence))
}

// byMessages are the VMs that messages declare: of each what came in last. Where a message came in after one that was sent
// after it, because it was delivered again, each of the two may be in force.
func (c *check) byMessages() map[string]object {
	declared, events, last := map[string]object{}, map[string]int{}, map[string]int{}

	for i := range c.model.sent {
		events[c.model.sent[i].eventID(i+1)] = i
	}

	entries := c.entries()

	for _, e := range slices.Backward(entries) {
		at, ours := events[e.EventID]
		if !ours || e.Class != store.ClassEvent || c.model.sent[at].name == "" {
			continue
		}

		s := &c.model.sent[at]

		newest, later := last[s.name]

		if !later || at > newest && s.inForce(c.configs[s.name]) {
			declared[s.name] = s.declares
		}

		last[s.name] = max(newest, at)
	}

	maps.DeleteFunc(declared, func(_ string, d object) bool { return d == nil })

	return declared
}

// inForce reports whether a VM is what a message declared.
func (s *sent) inForce(got *resources.VMConfig) bool {
	if got == nil || s.declares == nil {
		return got == nil && s.declares == nil
	}

	return got.TypedSpec().Description == descriptionOf(s.declares)
}

// takenIn checks that every message was taken in once, or is a dead letter where it can't be, and is not waited for any more.
func (c *check) takenIn() {
	events, dead := map[string]int{}, map[string]int{}

	for _, e := range c.entries() {
		switch e.Class {
		case store.ClassEvent:
			events[e.EventID]++
		case store.ClassDead:
			dead[e.EventID]++
		}
	}

	for i := range c.model.sent {
		s := &c.model.sent[i]
		id := s.eventID(i + 1)

		if !s.bad && events[id] != 1 || s.bad && dead[id] == 0 {
			c.wrong("the %d. message, event %s, is %d times in the journal, and %d times dead", i+1, id, events[id], dead[id])
		}
	}

	c.edge.mu.Lock()
	defer c.edge.mu.Unlock()

	consumers := c.edge.streams[opsStream].consumers

	for _, name := range []string{declaring, signalling} {
		d := consumers["gateway-"+name]

		switch {
		case d == nil:
			c.wrong("subscription %s has no consumer", name)
		case len(d.open) > 0 || d.next <= uint64(len(c.model.sent)):
			c.wrong("the consumer of subscription %s is at %d of %d, and waits for %v", name, d.next, len(c.model.sent), d.open)
		}
	}

	if len(consumers) != 2 {
		c.wrong("consumers are left: %v", slices.Collect(maps.Keys(consumers)))
	}
}
