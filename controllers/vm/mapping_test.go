package vm_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/resources"
	"gateway/store"
)

// Whatever changed, the VMs that it is about look again.
func TestWhatWakesAVM(t *testing.T) {
	t.Parallel()

	event := func(target *resources.Target) resources.EventAttributes {
		return resources.EventAttributes{ID: "event-1", Source: resources.SourceWebhook, Name: "deploy", Received: time.Now(), Target: target}
	}

	for name, test := range map[string]struct {
		change func(w *world)
		// looks is how many of the two VMs look again.
		looks int64
	}{
		"a webhook that targets one by name": {func(w *world) {
			modify(w, resources.NewWebhookEvent("e"), func(s *resources.WebhookEventSpec) {
				s.Event = event(&resources.Target{Kind: "VM", Name: "web"})
			})
		}, 1},
		"a tick that targets all": {func(w *world) {
			modify(w, resources.NewCronTick("e"), func(s *resources.CronTickSpec) {
				s.Event = event(&resources.Target{Kind: "VM", Selector: &resources.Selector{}})
			})
		}, 2},
		"a message that targets a host": {func(w *world) {
			modify(w, resources.NewMessageEvent("e"), func(s *resources.MessageEventSpec) {
				s.Event = event(&resources.Target{Kind: "Host", Name: "a"})
			})
		}, 0},
		"a file without a target": {func(w *world) {
			modify(w, resources.NewFileEvent("e"), func(s *resources.FileEventSpec) { s.Event = event(nil) })
		}, 0},
		"the host's connection": {func(w *world) { w.connect("a", true) }, 2},
		"another host's":        {func(w *world) { w.connect("b", true) }, 0},
		"a slice of all": {func(w *world) {
			modify(w, resources.NewResync("slice-0"), func(s *resources.ResyncSpec) { s.Slices, s.Cause = 1, "resync" })
		}, 2},
		"a sync of one": {func(w *world) {
			modify(w, resources.NewResync("sync"), func(s *resources.ResyncSpec) { s.Target = &resources.Target{Kind: "VM", Name: "web"} })
		}, 1},
		"a sync of hosts": {func(w *world) {
			modify(w, resources.NewResync("sync"), func(s *resources.ResyncSpec) { s.Target = &resources.Target{Kind: "Host", Name: "web"} })
		}, 0},
		"a hold of another kind": {func(w *world) {
			modify(w, resources.NewHold(resources.HoldID("Host", "web")), func(*resources.HoldSpec) {})
		}, 0},
		"the end of a foreign domain of its name": {func(w *world) {
			modify(w, resources.NewDomainEvent("a.8a4a9b2e"), func(s *resources.DomainEventSpec) { s.Domain = "web" })
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(t *testing.T, w *world) {
				w.make("web", nil)
				w.make("db", nil)

				before := w.reconciles.Load()
				test.change(w)
				w.pass(time.Second)

				require.Equal(t, test.looks, w.reconciles.Load()-before)
			})
		})
	}
}

func TestCauses(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.make("web", nil)
		require.Equal(t, "resync", w.status("web").Cause, "nobody said what led to it")

		w.host().Destroy(uuid("web"))
		w.nudge("web")
		require.Equal(t, "event-1", w.status("web").Cause)

		_, err := safe.StateUpdateWithConflicts(t.Context(), w.store.State(), resources.NewVMConfig("web").Metadata(), func(r *resources.VMConfig) error {
			resources.SetRevision(r.Metadata(), 2)
			resources.SetCause(r.Metadata(), "commit-7")
			r.TypedSpec().Power = resources.PowerStopped

			return nil
		})
		require.NoError(t, err)
		w.pass(time.Minute)
		require.Equal(t, "commit-7", w.status("web").Cause, "what changed the document")

		entries, err := w.store.Journal().Query(t.Context(), store.Query{Object: "VM/web", EventID: "event-1"})
		require.NoError(t, err)
		require.Len(t, entries, 1, "the call that changed the hypervisor carries it too")
	})
}

func TestWhatIsDoneForAnOverrideIsAttributedToIt(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.make("web", nil)

		for i := range 20 {
			cause := fmt.Sprintf("push-%d", i)

			// The event's pass may be the first that sees the override.
			w.happen("web")
			w.override("web", func(s *resources.OverrideSpec) {
				s.Cause, s.Patch = cause, resources.JSON(fmt.Sprintf(`{"description": "build %d"}`, i))
			})
			require.Equal(t, cause, w.status("web").Cause)

			entries, err := w.store.Journal().Query(t.Context(), store.Query{Object: "VM/web", EventID: cause})
			require.NoError(t, err)
			require.Len(t, entries, 1, "the change of the hypervisor")

			w.pass(time.Second)
		}
	})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.make("web", nil)
		w.make("db", func(s *resources.VMConfigSpec) { s.Power = resources.PowerStopped })
		w.declare("nowhere", func(*resources.VMConfigSpec) {})
		w.nudge("web")

		count := func() map[string]float64 {
			families, err := w.registry.Gather()
			require.NoError(t, err)

			found := map[string]float64{}

			for _, f := range families {
				for _, m := range f.GetMetric() {
					key := f.GetName()
					for _, l := range m.GetLabel() {
						key += " " + l.GetValue()
					}

					if value := m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount()); value != 0 {
						found[key] = value
					}
				}
			}

			return found
		}

		want := map[string]float64{
			"gateway_vms a running": 1, "gateway_vms a stopped": 1, "gateway_vms  unknown": 1,
			"gateway_event_to_reconcile_seconds domain": 1,
		}
		require.Equal(t, want, count())

		w.restart()
		w.pass(time.Second)
		require.Equal(t, want, count(), "the VMs are counted anew by a rebuilt controller")

		w.teardown(resources.NewVMConfig("web"))
		w.pass(time.Minute)
		delete(want, "gateway_vms a running")
		require.Equal(t, want, count())
	})
}

// At a start the HostStatus is that of the process before, and the pool is not connected yet: what was known stays until
// the host is seen to be away.
func TestStartOfTheGateway(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.make("web", nil)

		version := get(w, resources.NewVMStatus("web")).Metadata().Version()
		opener := w.pool.opener

		w.stop()
		w.pool.drivers, w.pool.opener = map[string]hypervisor.Driver{}, refuse
		w.start()
		w.pass(time.Second)
		require.Equal(t, version, get(w, resources.NewVMStatus("web")).Metadata().Version())

		// But nobody may believe that a new revision has converged.
		w.declare("web", func(s *resources.VMConfigSpec) { s.CPUs = 2 })
		w.pass(time.Second)
		require.Equal(t, resources.ReasonHostUnreachable, w.reason("web", resources.ConditionUnknown))

		w.pool.opener = opener
		w.connect("a", true)
		w.pass(time.Second)
		require.Equal(t, resources.StateRunning, w.status("web").State)
	})
}
