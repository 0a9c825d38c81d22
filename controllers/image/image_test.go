package image_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/controllers/chain/chaintest"
	"gateway/hypervisor"
	"gateway/hypervisor/sim"
	"gateway/resources"
)

// An image that can't be had says so, with the time of the next try; nothing is left, and nothing wrong is ever used.
func TestCaseV20(t *testing.T) {
	good := qcow2(3, nil)

	t.Run("a URL that answers 404 is ImageMissing, and tried again", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.declare("debian", good)
			w.vm("web", "debian", nil)
			w.Pass(5 * time.Second)

			e := w.on("debian", "a")
			require.Equal(t, resources.ReasonImageMissing, e.Reason)
			require.Equal(t, 1, e.Failures)
			require.True(t, e.NextTry.After(time.Now()))

			missing := w.why("web", resources.ConditionImageReady)
			require.Equal(t, resources.ReasonImageMissing, missing.Reason)
			require.Contains(t, missing.Message, "404 Not Found; the next try is at "+e.NextTry.Format(time.RFC3339))
			require.Equal(t, resources.ReasonImageMissing, w.ready("debian", resources.ConditionFalse).Reason)
			require.Empty(t, w.World.Host("a").Volumes())
			require.Empty(t, w.World.Host("a").Images())

			w.Pass(time.Hour)
			require.Equal(t, 11, w.server.downloads(url), "10 s, 20 s, … 10 min apart")

			w.server.put(url, good)
			w.Pass(13 * time.Minute)
			require.Equal(t, resources.StateRunning, w.state("web"))
			require.Equal(t, resources.ReasonImageReady, w.ready("debian", resources.ConditionTrue).Reason)
			require.Zero(t, w.on("debian", "a").Failures)
		})
	})

	t.Run("what is not what was declared is removed and never used", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.server.put(url, qcow2(2, nil))
			w.declare("debian", good)
			w.vm("web", "debian", nil)
			w.Pass(5 * time.Minute)

			require.Equal(t, resources.ReasonImageInvalid, w.on("debian", "a").Reason)
			require.Contains(t, w.on("debian", "a").Message, "checksum")
			require.Equal(t, resources.ReasonImageInvalid, w.why("web", resources.ConditionImageReady).Reason)
			require.Empty(t, w.World.Host("a").Images())
			require.Empty(t, w.World.Host("a").Volumes())
		})
	})

	for name, test := range map[string]struct {
		content []byte
		why     string
	}{
		"with a backing file":   {qcow2(3, func(h []byte) { binary.BigEndian.PutUint64(h[8:], 512) }), "its data is in another file"},
		"with an external file": {qcow2(3, func(h []byte) { h[79] = 4 }), "its data is in another file"},
		"that is encrypted":     {qcow2(3, func(h []byte) { h[35] = 1 }), "encrypted"},
		"of an unknown version": {qcow2(7, nil), "version 7"},
		"that is cut off":       {qcow2(3, nil)[:40], "cut off"},
		"that is packed":        {[]byte("\xfd7zXZ\x00 and more"), "packed with xz"},
	} {
		t.Run("an image "+name+" is refused", func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.server.put(url, test.content)
				w.declare("debian", test.content)
				w.Pass(5 * time.Second)

				require.Equal(t, resources.ReasonImageInvalid, w.on("debian", "a").Reason)
				require.Contains(t, w.on("debian", "a").Message, test.why)
				require.Empty(t, w.World.Host("a").Images())
			})
		})
	}
}

// Twenty VMs on two hosts share an image: each host gets it once.
func TestCaseV21(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		content := qcow2(3, nil)
		w.server.put(url, content)
		w.server.pause = time.Second
		w.host("b")
		w.declare("debian", content)

		for i := range 20 {
			w.vm(fmt.Sprintf("web-%d", i), "debian", nil)
		}

		w.Pass(3 * time.Second)
		require.Equal(t, resources.ReasonImageFetching, w.on("debian", "a").Reason)
		require.Greater(t, w.on("debian", "a").Bytes, resources.Size(1000), "progress is shown")
		require.Less(t, w.on("debian", "a").Bytes, resources.Size(4096))
		require.Equal(t, resources.Size(4096), w.on("debian", "a").Total)
		require.Equal(t, 2*resources.MiB, w.on("debian", "a").VirtualSize, "its first bytes say so")
		require.Equal(t, resources.ReasonImageFetching, w.why("web-0", resources.ConditionConverged).Reason)

		w.Pass(10 * time.Second)

		for i := range 20 {
			require.Equal(t, resources.StateRunning, w.state(fmt.Sprintf("web-%d", i)))
		}

		require.Equal(t, 2, w.server.downloads(url), "one for each host")
		require.Equal(t, "/var/lib/sim/a/"+fileName("debian", content), w.on("debian", "a").Path)
		require.Equal(t, 2*resources.MiB, w.on("debian", "a").VirtualSize)

		// Looking again fetches nothing.
		w.Rebuild()
		w.Pass(time.Hour)
		require.Equal(t, 2, w.server.downloads(url))
	})
}

func TestImage(t *testing.T) {
	content := qcow2(3, nil)

	t.Run("stays while VMs use it, and its file while disks start from it", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.server.put(url, content)
			w.declare("debian", content)
			w.vm("gone", "debian", nil)
			w.vm("kept", "debian", func(d *resources.Disk) { d.OnDelete = resources.OnDeleteKeep })
			w.Pass(5 * time.Second)
			require.Equal(t, resources.StateRunning, w.state("kept"))

			w.Delete(resources.NewImage("debian").Metadata())
			w.Pass(time.Minute)
			require.Equal(t, resources.ReasonInUse, w.ready("debian", resources.ConditionFalse).Reason)

			w.Delete(resources.NewVMConfig("gone").Metadata())
			w.Delete(resources.NewVMConfig("kept").Metadata())
			w.Pass(time.Minute)
			require.Nil(t, chaintest.Get(w.Rig, resources.NewImage("debian")))
			require.Nil(t, chaintest.Get(w.Rig, resources.NewImageStatus("debian")))

			host := w.World.Host("a")
			require.Equal(t, map[string]resources.Size{"kept.root.qcow2": 2 * resources.MiB}, host.Volumes())
			require.Equal(t, map[string]bool{fileName("debian", content): true}, host.Images(), "the disk that is kept needs it")

			// Declared again it is there; and once the disk is gone it goes with the image.
			w.declare("debian", content)
			w.Pass(5 * time.Second)
			w.ready("debian", resources.ConditionTrue)
			require.Equal(t, 1, w.server.downloads(url))

			require.True(t, host.DropVolume("kept.root.qcow2"))
			w.Delete(resources.NewImage("debian").Metadata())
			w.Pass(5 * time.Second)
			require.Empty(t, host.Images())
		})
	})

	t.Run("of another content is another file, and the old one goes with its last disk", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.server.put(url, content)
			w.declare("debian", content)
			w.vm("old", "debian", nil)
			w.Pass(5 * time.Second)

			next := qcow2(2, nil)
			w.server.put(url, next)
			chaintest.Edit(w.Rig, resources.NewImage("debian"), func(i *resources.Image) { i.TypedSpec().SHA256 = digest(next) })
			w.vm("new", "debian", nil)
			w.Pass(5 * time.Second)

			host := w.World.Host("a")
			require.Equal(t, map[string]string{
				"old.root.qcow2": "/var/lib/sim/a/" + fileName("debian", content), "new.root.qcow2": "/var/lib/sim/a/" + fileName("debian", next),
			}, host.Backings())

			w.Delete(resources.NewVMConfig("old").Metadata())
			w.Pass(5 * time.Second)

			w.Rebuild()
			w.Pass(5 * time.Second)
			require.Equal(t, map[string]bool{fileName("debian", next): true}, host.Images())
		})
	})

	t.Run("that is a path is used where it is", func(t *testing.T) { inWorld(t, testPath) })
	t.Run("goes before its host does", func(t *testing.T) { inWorld(t, testHostGoes) })

	t.Run("is looked at again when somebody asks, and when it was lost", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.declare("debian", content)
			w.Pass(5 * time.Minute)
			w.server.put(url, content)

			resync := resources.NewResync("sync")
			resync.TypedSpec().Target = &resources.Target{Kind: "Image", Name: "debian"}
			w.Create(resync)
			w.Pass(time.Second)
			w.ready("debian", resources.ConditionTrue)

			require.True(t, w.World.Host("a").DropImage(fileName("debian", content)))
			chaintest.Edit(w.Rig, resync, func(r *resources.Resync) { r.TypedSpec().Sequence++ })
			w.Pass(time.Second)
			require.Equal(t, map[string]bool{fileName("debian", content): true}, w.World.Host("a").Images())
		})
	})
}

func testPath(t *testing.T, w *world) {
	const path = "/srv/golden.img"

	i := resources.NewImage("golden")
	i.TypedSpec().Source = path
	w.Create(i)
	w.Pass(time.Second)
	require.Equal(t, resources.ReasonImageMissing, w.on("golden", "a").Reason)
	require.Contains(t, w.on("golden", "a").Message, "host a has no file "+path)

	content := qcow2(3, nil)
	w.World.Host("a").AddFile(path, sim.File{Content: content, VirtualSize: 2 * resources.MiB})
	w.Pass(time.Minute)
	require.Equal(t, hypervisor.FormatRaw, w.on("golden", "a").Format, "without a checksum its name says what it is")

	chaintest.Edit(w.Rig, i, func(i *resources.Image) { i.TypedSpec().SHA256 = digest(content) })
	w.vm("web", "golden", nil)
	w.vm("small", "golden", func(d *resources.Disk) { d.Size = resources.MiB })
	w.vm("copy", "golden", func(d *resources.Disk) { d.Clone = resources.CloneFull })
	w.Pass(10 * time.Second)

	require.Equal(t, hypervisor.FormatQCOW2, w.on("golden", "a").Format)
	require.Equal(t, resources.StateRunning, w.state("web"))
	require.Equal(t, map[string]string{"web.root.qcow2": path}, w.World.Host("a").Backings(), "a copy needs no image")
	require.Equal(t, "disk root is declared with 1MiB, and its image golden has 2MiB: a disk only grows",
		w.why("small", resources.ConditionImageReady).Message)

	chaintest.Edit(w.Rig, i, func(i *resources.Image) { i.TypedSpec().SHA256 = digest([]byte("something else")) })
	w.Pass(time.Second)
	require.Equal(t, resources.ReasonImageInvalid, w.on("golden", "a").Reason)
	require.Empty(t, w.World.Host("a").Images(), "nothing is stored")
}

func testHostGoes(t *testing.T, w *world) {
	content := qcow2(3, nil)
	w.server.put(url, content)
	w.host("b")
	w.declare("debian", content)
	w.vm("web", "debian", nil)
	w.Pass(5 * time.Second)

	// A directory is deleted at once.
	for _, name := range []string{"a", "b"} {
		w.Delete(resources.NewHost(name).Metadata())
	}

	w.Delete(resources.NewImage("debian").Metadata())
	w.Delete(resources.NewVMConfig("web").Metadata())
	w.Pass(time.Minute)

	require.Empty(t, w.Left())

	for _, h := range w.World.Hosts() {
		require.Empty(t, h.Images())
		require.Empty(t, h.Volumes())
	}
}

// The gateway is killed while it stores an image, or before it notes that it did: nothing is left over, and it goes on.
func TestCaseV66AKillWhileAnImageIsStoredLeavesNothing(t *testing.T) {
	content := qcow2(3, nil)

	t.Run("in the middle of the content", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.server.put(url, content)
			w.server.pause = time.Second
			w.declare("debian", content)
			w.Pass(2 * time.Second)
			require.Equal(t, map[string]bool{fileName("debian", content): false}, w.World.Host("a").Images())

			w.Disconnect("a") // so that nothing can be cleaned up
			w.Rebuild()
			w.Connect("a", resources.Capacity{})
			w.Pass(20 * time.Second)
			require.Equal(t, map[string]bool{fileName("debian", content): true}, w.World.Host("a").Images())
			w.ready("debian", resources.ConditionTrue)
		})
	})

	for kind, name := range map[sim.FaultKind]string{sim.FailBefore: "before its last step", sim.FailAfter: "after its last step", sim.LoseAfter: "with its connection"} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.World.Host("a").Inject(sim.Fault{Kind: kind, Call: "StoreImage", Times: 1, Err: errors.New("killed")})
				w.server.put(url, content)
				w.declare("debian", content)
				w.Pass(time.Second)
				w.Disconnect("a")
				w.Connect("a", resources.Capacity{})
				w.Pass(time.Minute)
				w.ready("debian", resources.ConditionTrue)
				require.Equal(t, map[string]bool{fileName("debian", content): true}, w.World.Host("a").Images())
			})
		})
	}

	t.Run("and what nobody declares any more is swept away by the next image", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.server.put(url, content)
			w.declare("debian", content)
			w.Pass(time.Second)
			w.Disconnect("a")
			w.Delete(resources.NewHost("a").Metadata())
			w.Delete(resources.NewImage("debian").Metadata())
			w.Pass(time.Minute)
			require.Empty(t, w.Left(), "a host that is away is not waited for when it is not declared any more")
			require.Len(t, w.World.Host("a").Images(), 1)

			w.host("a")
			w.declare("other", content)
			w.Pass(time.Second)
			require.Equal(t, map[string]bool{fileName("other", content): true}, w.World.Host("a").Images())
		})
	})
}

// What was known of a host went with its document, while it was away. It comes back and is not to have the image.
func TestNothingIsLeftOnAHostThatIsDeclaredAnewAndDrained(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		content := qcow2(3, nil)
		w.server.put(url, content)
		w.host("b")
		w.declare("debian", content)
		w.Pass(time.Second)
		require.Len(t, w.World.Host("b").Images(), 1)

		w.Disconnect("b")
		w.Delete(resources.NewHost("b").Metadata())
		w.Pass(time.Minute)
		require.Nil(t, chaintest.Get(w.Rig, resources.NewHost("b")))

		w.AddHost("b", resources.Capacity{CPUs: 1}, func(h *resources.Host) { h.TypedSpec().Drain = true })
		w.Pass(time.Minute)
		require.Empty(t, w.World.Host("b").Images())
		require.Len(t, w.World.Host("a").Images(), 1)

		chaintest.Edit(w.Rig, resources.NewHost("b"), func(h *resources.Host) { h.TypedSpec().Drain = false })
		w.Pass(time.Minute)
		require.Len(t, w.World.Host("b").Images(), 1, "it may have it again")
		w.ready("debian", resources.ConditionTrue)
	})
}
