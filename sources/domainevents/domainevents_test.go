package domainevents_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
	"gateway/sources/domainevents"
	"gateway/sources/intake/intaketest"
	"gateway/store"
)

const gatewayID = "home"

// world is a source that listens to simulated host a, in a bubble of virtual time.
type world struct {
	*testing.T

	state   state.State
	journal *intaketest.Journal
	sim     *sim.World
	host    *sim.Host
	pool    *hypervisor.Pool
}

func inBubble(t *testing.T, test func(w *world)) {
	t.Helper()

	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, state: intaketest.NewState(), journal: &intaketest.Journal{}, sim: sim.NewWorld()}
		w.host = w.sim.Host("a")
		w.pool = hypervisor.NewPool(map[string]hypervisor.Opener{"sim": sim.NewOpener(w.sim)}, gatewayID, hypervisor.PoolOptions{})

		defer w.pool.Close()

		w.pool.Ensure("a", "sim://a")
		synctest.Wait()

		stop := intaketest.Run(t, w.state, domainevents.New(domainevents.Options{Pool: w.pool, GatewayID: gatewayID, Journal: w.journal}))
		defer stop()

		test(w)
	})
}

func (w *world) declareHost(name string) {
	w.Helper()
	require.NoError(w, w.state.Create(w.Context(), resources.NewHost(name)))
	synctest.Wait()
}

// define makes a VM and its domain, running.
func (w *world) define(vm string) (uuid string) {
	w.Helper()
	require.NoError(w, w.state.Create(w.Context(), resources.NewVMConfig(vm)))

	driver, err := w.pool.Driver("a")
	require.NoError(w, err)

	uuid = hypervisor.DomainUUID(gatewayID, vm)
	_, err = driver.DefineDomain(w.Context(), hypervisor.DomainSpec{Name: vm, VM: vm, UUID: uuid, CPUs: 1, Memory: resources.GiB})
	require.NoError(w, err)
	require.NoError(w, driver.StartDomain(w.Context(), uuid, false))
	synctest.Wait()

	return uuid
}

// event returns what is known of a domain, nil when nothing is.
func (w *world) event(id string) *resources.DomainEventSpec {
	w.Helper()

	res, err := safe.StateGetByID[*resources.DomainEvent](w.Context(), w.state, id)
	if state.IsNotFoundError(err) {
		return nil
	}

	require.NoError(w, err)

	return res.TypedSpec()
}

func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestWhatHappensToADomainOfOursIsWrittenUnderItsVM(t *testing.T) {
	inBubble(t, func(w *world) {
		w.declareHost("a")
		uuid := w.define("web-1")
		before := w.event("web-1").Event.Sequence

		require.True(t, w.host.Destroy(uuid))
		synctest.Wait()

		e := w.event("web-1")
		require.Equal(t, "stopped", e.Kind)
		require.Equal(t, "a", e.Host)
		require.Equal(t, uuid, e.DomainUUID)
		require.Equal(t, "web-1", e.VM)
		require.Greater(t, e.Event.Sequence, before)
		require.Equal(t, &resources.Target{Kind: "VM", Name: "web-1"}, e.Event.Target)
		require.Equal(t, resources.SourceDomain, e.Event.Source)
		require.NotEmpty(t, e.Epoch)

		last := w.journal.Entries()[len(w.journal.Entries())-1]
		require.Equal(t, store.ClassEvent, last.Class)
		require.Equal(t, e.Event.ID, last.EventID)
		require.Equal(t, "VM/web-1", last.Object)
	})
}

func TestForeignAndAdoptedDomainsAreTold(t *testing.T) {
	inBubble(t, func(w *world) {
		w.declareHost("a")

		const foreign, adopted, other = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002", "00000000-0000-4000-8000-000000000003"

		require.NoError(t, w.host.AddDomain(hypervisor.Domain{Name: "printer", UUID: foreign}))
		require.NoError(t, w.host.AddDomain(hypervisor.Domain{Name: "Ubuntu22.04", UUID: adopted, Gateway: gatewayID, VM: "desk"}))
		require.NoError(t, w.host.AddDomain(hypervisor.Domain{Name: "theirs", UUID: other, Gateway: "elsewhere", VM: "desk"}))
		synctest.Wait()

		require.Empty(t, w.event("a."+foreign).VM)
		require.Nil(t, w.event("a."+foreign).Event.Target)
		require.Equal(t, "desk", w.event("desk").VM)
		require.Equal(t, adopted, w.event("desk").DomainUUID)
		require.Empty(t, w.event("a."+other).VM, "the mark of another gateway is not ours")

		require.True(t, w.host.Undefine(foreign))
		synctest.Wait()
		require.Equal(t, "undefined", w.event("a."+foreign).Kind)
		w.pass(3 * time.Minute)
		require.Nil(t, w.event("a."+foreign), "foreign domains leave nothing behind")
		require.NotNil(t, w.event("a."+other))
	})
}

func TestWhatHappenedWhileTheHostWasAwayIsLookedAtAgain(t *testing.T) {
	inBubble(t, func(w *world) {
		w.declareHost("a")
		stays, stops, goes := w.define("stays"), w.define("stops"), w.define("goes")

		const foreign = "00000000-0000-4000-8000-000000000001"

		require.NoError(t, w.host.AddDomain(hypervisor.Domain{Name: "printer", UUID: foreign}))
		synctest.Wait()

		w.host.Kill(false)
		w.pass(time.Minute)
		require.True(t, w.host.Destroy(stops))
		require.True(t, w.host.Destroy(goes))
		require.True(t, w.host.Undefine(goes))
		require.True(t, w.host.Undefine(foreign))
		synctest.Wait()
		require.NotEqual(t, "relisted", w.event("stays").Kind)

		entries := len(w.journal.Entries())

		w.host.Revive()
		w.pass(2 * time.Minute)

		for _, vm := range []string{"stays", "stops", "goes"} {
			require.Equal(t, "relisted", w.event(vm).Kind, vm)
		}

		require.Nil(t, w.event("a."+foreign))
		require.Len(t, w.journal.Entries(), entries, "a list is nothing that happened")

		require.True(t, w.host.Destroy(stays))
		synctest.Wait()
		require.Equal(t, "stopped", w.event("stays").Kind, "the subscription stands again")
	})
}

func TestHostsComeAndGo(t *testing.T) {
	inBubble(t, func(w *world) {
		uuid := w.define("web-1")
		require.Nil(t, w.event("web-1"), "nobody declared the host")

		w.declareHost("a")
		require.Equal(t, "relisted", w.event("web-1").Kind)

		require.NoError(t, w.state.Destroy(t.Context(), resources.NewHost("a").Metadata()))
		synctest.Wait()
		require.True(t, w.host.Destroy(uuid))
		synctest.Wait()
		require.Equal(t, "relisted", w.event("web-1").Kind, "nobody listens")

		w.declareHost("later") // the pool does not have it yet
		w.pool.Ensure("later", "sim://a")
		synctest.Wait()
		require.Equal(t, "later", w.event("web-1").Host)
	})
}

func TestEventsOfVMsThatAreNoMoreAreSwept(t *testing.T) {
	inBubble(t, func(w *world) {
		w.declareHost("a")
		w.define("stays")
		w.define("goes")
		require.NoError(t, w.state.Destroy(t.Context(), resources.NewVMConfig("goes").Metadata()))
		require.NotNil(t, w.event("goes"))

		w.pass(2 * time.Minute)
		require.Nil(t, w.event("goes"))
		require.NotNil(t, w.event("stays"))
	})
}

func TestAStormOnOneDomainIsFewWrites(t *testing.T) {
	inBubble(t, func(w *world) {
		w.declareHost("a")
		uuid := w.define("web-1")
		before := w.event("web-1").Event.Sequence

		for range 4_000 {
			w.host.Pause(uuid)
			w.host.Resume(uuid)
		}

		synctest.Wait()
		require.Equal(t, "resumed", w.event("web-1").Kind, "the last is kept")
		require.Less(t, w.event("web-1").Event.Sequence-before, uint64(8_000))
		require.LessOrEqual(t, len(w.journal.Entries()), 600, "the journal is not flooded")
	})
}

// brokenDriver's list fails a number of times, while its events work.
type brokenDriver struct {
	hypervisor.Driver

	failures int
}

func (d *brokenDriver) Domains(ctx context.Context) ([]hypervisor.Domain, error) {
	if d.failures > 0 {
		d.failures--

		return nil, errors.New("error listing domains: a stuck guest")
	}

	return d.Driver.Domains(ctx)
}

type onePool struct{ driver hypervisor.Driver }

func (p onePool) Driver(host string) (hypervisor.Driver, error) {
	if host != "a" {
		return nil, fmt.Errorf("host %q: %w", host, hypervisor.ErrUnreachable)
	}

	return p.driver, nil
}

func (onePool) Watch(func(string)) func() { return func() {} }

func TestAListThatFailsIsTriedAgainAndTheEventsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := sim.NewWorld()

		driver, err := sim.NewOpener(world)(t.Context(), "sim://a", gatewayID)
		require.NoError(t, err)

		defer driver.Close() //nolint:errcheck // simulated

		const adopted = "00000000-0000-4000-8000-000000000002"

		require.NoError(t, world.Host("a").AddDomain(hypervisor.Domain{Name: "old", UUID: adopted, Gateway: gatewayID, VM: "desk"}))

		st := intaketest.NewState()
		stop := intaketest.Run(t, st, domainevents.New(domainevents.Options{
			Pool: onePool{&brokenDriver{Driver: driver, failures: 3}}, GatewayID: gatewayID,
		}))
		defer stop()

		require.NoError(t, st.Create(t.Context(), resources.NewHost("a")))
		require.NoError(t, st.Create(t.Context(), resources.NewHost("b")))
		synctest.Wait()
		require.True(t, world.Host("a").Start(adopted))
		synctest.Wait()

		_, err = safe.StateGetByID[*resources.DomainEvent](t.Context(), st, "desk")
		require.True(t, state.IsNotFoundError(err), "without a list nobody knows whose it is")

		time.Sleep(10 * time.Second)
		synctest.Wait()

		event, err := safe.StateGetByID[*resources.DomainEvent](t.Context(), st, "desk")
		require.NoError(t, err)
		require.Equal(t, "started", event.TypedSpec().Kind)
		require.EqualValues(t, 2, event.TypedSpec().Event.Sequence)
	})
}
