package sim

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource"

	"gateway/resources"
	"gateway/store"
)

// leftovers checks that everything that was to be handled is, and that nothing is left of what is gone.
func (c *check) leftovers() {
	for name := range c.placements {
		if c.configs[name] == nil {
			c.wrong("the placement of %s is left", name)
		}
	}

	for name := range c.networks {
		if c.configs[name] == nil {
			c.wrong("the network configuration of %s is left", name)
		}
	}

	for name := range c.statuses {
		if c.configs[name] == nil {
			c.wrong("the status of %s is left", name)
		}
	}

	for _, kind := range []string{"WebhookEvent", "MessageEvent", "Action", "Tombstone", "DeletionGuard", "Hold"} {
		for id, r := range list[resource.Resource](c.world, kind) {
			c.wrong("%s %s is left: %v %+v", kind, id, r.Metadata().Finalizers(), r.Spec())
		}
	}

	results := list[*resources.ApplyResult](c.world, "ApplyResult")

	for id, e := range list[*resources.FileEvent](c.world, "FileEvent") {
		result := results[id]

		if e.Metadata().Phase() != resource.PhaseRunning || result == nil || result.TypedSpec().Sequence != e.TypedSpec().Event.Sequence || result.TypedSpec().Error != "" {
			c.wrong("file %s: phase %s, result %+v", e.TypedSpec().Path, e.Metadata().Phase(), result)

			continue
		}

		for _, o := range result.TypedSpec().Objects {
			if o.Outcome == resources.OutcomeConflict || o.Outcome == resources.OutcomeRefused {
				c.wrong("file %s: %+v", e.TypedSpec().Path, o)
			}
		}
	}
}

// message is what is read of a published one.
type message struct {
	uid    string
	number uint64
	typ    string
}

// published checks the stream of every VM: rising numbers, the newest status last, nothing after the deletion.
func (c *check) published() {
	for _, wrong := range c.edge.wrong {
		c.wrong("%s", wrong)
	}

	newest := map[string]message{}

	for subject, messages := range c.edge.bySubject(names.StatusStream()) {
		name, vm := strings.CutPrefix(subject, names.Prefix+".vm.")
		if !vm {
			continue
		}

		name = strings.TrimSuffix(name, ".status")
		last, gone := map[string]uint64{}, map[string]bool{}

		for _, msg := range messages {
			uid, text, _ := strings.Cut(msg.Header["Nats-Msg-Id"][0], "/")
			number, err := strconv.ParseUint(text, 10, 64)

			var event struct{ Type string }
			if err := json.Unmarshal(msg.Data, &event); err != nil {
				c.wrong("%s: %v", subject, err)
			}

			m := message{uid, number, event.Type}

			if err != nil || number < last[uid] || gone[uid] && m.typ != "gateway.vm.deleted.v1" {
				c.wrong("%s: %v came after %d of the same (deleted %v)", subject, m, last[uid], gone[uid])
			}

			last[uid], gone[uid] = number, m.typ == "gateway.vm.deleted.v1"
			newest[name] = m
		}
	}

	for name, s := range c.statuses {
		want := message{s.TypedSpec().UID, s.Metadata().Version().Value(), "gateway.vm.status.v1"}
		if newest[name] != want {
			c.wrong("the newest message about %s is %v, not %v", name, newest[name], want)
		}
	}

	for name, m := range newest {
		if c.statuses[name] == nil && m.typ != "gateway.vm.deleted.v1" {
			c.wrong("the last message about %s is %v", name, m)
		}
	}
}

// acknowledged checks that the journal has every event whose sender was told that it is kept.
func (c *check) acknowledged() {
	known, dead := map[string]bool{}, map[string]bool{}
	journal := c.process.store.Journal()

	entries, err := journal.Query(ctx(), store.Query{
		Classes: []store.Class{store.ClassEvent, store.ClassDead}, Source: resources.SourceWebhook, Limit: 100_000,
	})
	if err != nil {
		c.wrong("journal: %v", err)
	}

	for _, e := range entries {
		known[e.EventID] = known[e.EventID] || e.Class == store.ClassEvent
		dead[e.EventID] = dead[e.EventID] || e.Class == store.ClassDead
	}

	for _, a := range c.model.acked {
		if !known[a.id] {
			c.wrong("event %s of %s was acknowledged, and the journal does not have it", a.id, a.route)
		}

		// What is dead may be sent again, and is processed again then.
		if id, seen := journal.Seen(resources.SourceWebhook, a.route, a.key); !dead[a.id] && (!seen || id != a.id) {
			c.wrong("delivery %s of %s was acknowledged, and would be processed again (seen as %q)", a.key, a.route, id)
		}
	}
}
