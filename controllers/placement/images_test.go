package placement_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"gateway/controllers/chain/chaintest"
	"gateway/resources"
)

// fromImage gives a VM a disk that is as large as image debian.
func fromImage(v *resources.VMConfig) {
	v.TypedSpec().Disks = append(v.TypedSpec().Disks, resources.Disk{Name: "root", Image: "debian", OnDelete: resources.OnDeleteKeep})
}

// imageOf makes the status of image debian say how large its disk is.
func imageOf(size resources.Size) *resources.ImageStatus {
	s := resources.NewImageStatus("debian")
	s.TypedSpec().Hosts = []resources.ImageOnHost{{Host: "a", VirtualSize: size}, {Host: "b"}}

	return s
}

func TestADiskWithoutASizeTakesWhatItsImageHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("a", withDisk(capacity(100, 64*resources.GiB), 5*resources.GiB))
		g.Create(imageOf(2 * resources.GiB))
		g.Settle()

		for _, name := range []string{"v-0", "v-1", "v-2"} {
			g.Create(vm(name, 1, resources.GiB, fromImage))
			g.Settle()
		}

		require.Equal(t, 2*resources.GiB, where(g, "v-1").Reserved.Disk)
		require.Equal(t, "host a: 1GiB of 5GiB disk free, 2GiB needed", where(g, "v-2").Message)

		// Another content of the image, half as large, leaves room for a third.
		chaintest.Edit(g, resources.NewImageStatus("debian"), func(s *resources.ImageStatus) { s.TypedSpec().Hosts[0].VirtualSize = resources.GiB })
		g.Settle()
		require.Equal(t, resources.GiB, where(g, "v-1").Reserved.Disk)
		require.Equal(t, "a", where(g, "v-2").Host)
	})
}

func TestTheSizeOfAnImageThatBecomesKnownLaterIsReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := rig(t)
		g.AddHost("a", withDisk(capacity(100, 64*resources.GiB), 3*resources.GiB))
		g.Create(vm("v-0", 1, resources.GiB, fromImage))
		g.Create(vm("v-1", 1, resources.GiB, fromImage))
		g.Settle()
		require.Zero(t, where(g, "v-0").Reserved.Disk)
		require.Equal(t, "a", where(g, "v-1").Host)

		// Both are there, and become as large whether there is room or not.
		g.Create(imageOf(2 * resources.GiB))
		g.Settle()

		taken := func() {
			t.Helper()

			for _, name := range []string{"v-0", "v-1"} {
				require.Equal(t, 2*resources.GiB, where(g, name).Reserved.Disk)
				require.Equal(t, resources.ReasonPlaced, where(g, name).Reason)
			}
		}
		taken()

		g.Create(vm("v-2", 1, resources.GiB, disks))
		g.Settle()
		require.Equal(t, "host a: 0 of 3GiB disk free, 1GiB needed", where(g, "v-2").Message)

		// Neither a status that has lost its hosts nor a process that begins anew forgets it.
		chaintest.Edit(g, resources.NewImageStatus("debian"), func(s *resources.ImageStatus) { s.TypedSpec().Hosts = nil })
		g.Settle()
		taken()
		g.Rebuild()
		g.Settle()
		taken()
		require.Equal(t, resources.ReasonUnschedulable, where(g, "v-2").Reason)

		chaintest.Edit(g, resources.NewImageStatus("debian"), func(s *resources.ImageStatus) { *s.TypedSpec() = *imageOf(2 * resources.GiB).TypedSpec() })
		g.Settle()
		taken()

		// What a document asks for on top of it has to fit.
		chaintest.Edit(g, resources.NewVMConfig("v-0"), withData)
		g.Settle()
		require.Equal(t, resources.ReasonNotEnoughCapacity, where(g, "v-0").Reason)
		require.Equal(t, 2*resources.GiB, where(g, "v-0").Reserved.Disk)
	})
}

// withData adds a disk of one GiB.
func withData(v *resources.VMConfig) {
	v.TypedSpec().Disks = append(v.TypedSpec().Disks, resources.Disk{Name: "data", Size: resources.GiB, OnDelete: resources.OnDeleteKeep})
}
