package sim_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open connects to a host of a world.
func open(t testing.TB, w *sim.World, uri string) hypervisor.Driver {
	t.Helper()

	d, err := sim.NewOpener(w)(t.Context(), uri, "home")
	require.NoError(t, err)

	return d
}

// specOf returns a small domain of ours.
func specOf(vm string) hypervisor.DomainSpec {
	return hypervisor.DomainSpec{
		Name: vm, VM: vm, UUID: hypervisor.DomainUUID("home", vm), Revision: 1, CPUs: 1, Memory: 512 * resources.MiB,
	}
}

// running makes a domain that is on, and returns its UUID.
func running(t testing.TB, d hypervisor.Driver, spec hypervisor.DomainSpec) string {
	t.Helper()

	_, err := d.DefineDomain(context.Background(), spec)
	require.NoError(t, err)
	require.NoError(t, d.StartDomain(context.Background(), spec.UUID, false))

	return spec.UUID
}

// stateOf returns the state of a domain and why it is in it.
func stateOf(t *testing.T, h *sim.Host, uuid string) (state, reason string) {
	t.Helper()

	d, ok := h.Domain(uuid)
	require.True(t, ok)

	return d.State, d.Reason
}
