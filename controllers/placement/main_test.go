package placement_test

import (
	"testing"

	"github.com/cosi-project/runtime/pkg/controller"
	"go.uber.org/goleak"

	"gateway/controllers/chain/chaintest"
	"gateway/controllers/placement"
	"gateway/resources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig runs placement alone.
func rig(t *testing.T) *chaintest.Rig {
	t.Helper()

	return chaintest.New(t, func(g *chaintest.Rig) []controller.QController {
		return []controller.QController{placement.New(placement.Options{Pool: g.Pool, GatewayID: chaintest.GatewayID})}
	})
}

func capacity(cpus int, memory resources.Size) resources.Capacity {
	return resources.Capacity{CPUs: cpus, Memory: memory}
}

// vm declares a VM.
func vm(name string, cpus int, memory resources.Size, change ...func(*resources.VMConfig)) *resources.VMConfig {
	v := resources.NewVMConfig(name)
	v.TypedSpec().CPUs, v.TypedSpec().Memory = cpus, memory

	for _, c := range change {
		c(v)
	}

	return v
}

func labelled(key, value string) func(*resources.VMConfig) {
	return func(v *resources.VMConfig) { v.Metadata().Labels().Set(key, value) }
}

func rules(p resources.Placement) func(*resources.VMConfig) {
	return func(v *resources.VMConfig) { v.TypedSpec().Placement = p }
}

// where returns the placement of a VM as it is.
func where(g *chaintest.Rig, name string) resources.VMPlacementSpec {
	g.T.Helper()

	p := chaintest.Get(g, resources.NewVMPlacement(name))
	if p == nil {
		return resources.VMPlacementSpec{}
	}

	return *p.TypedSpec()
}
