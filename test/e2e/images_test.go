package e2e

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/controllers/vm/nocloud"
	"gateway/test/libvirtd"
)

// depot is a server of images on this machine that counts what is asked for.
type depot struct {
	*httptest.Server

	content []byte
	asked   atomic.Int64
	missing atomic.Bool
	// halted stops each answer in the middle while it is set.
	halted atomic.Bool
}

// newDepot offers a qcow2 image of 64 MiB that begins with a text.
func newDepot(t *testing.T, text string) *depot {
	t.Helper()

	dir := t.TempDir()
	raw, image := filepath.Join(dir, "raw"), filepath.Join(dir, "image.qcow2")
	require.NoError(t, os.WriteFile(raw, []byte(text), 0o600))
	require.NoError(t, os.Truncate(raw, 64<<20))

	out, err := exec.Command("qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, image).CombinedOutput()
	require.NoError(t, err, string(out))

	content, err := os.ReadFile(image)
	require.NoError(t, err)

	d := &depot{content: content}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.asked.Add(1)

		if d.missing.Load() {
			http.Error(w, "not here", http.StatusNotFound)

			return
		}

		half := len(d.content) / 2
		_, _ = w.Write(d.content[:half]) // a client that went away is none of ours
		d.waitWhileHalted(r)
		_, _ = w.Write(d.content[half:])
	}))
	t.Cleanup(d.Close)

	return d
}

// waitWhileHalted returns when answers go on, or when nobody waits for this one any more.
func (d *depot) waitWhileHalted(r *http.Request) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()

	for d.halted.Load() {
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		}
	}
}

func (d *depot) digest() string { return fmt.Sprintf("%x", sha256.Sum256(d.content)) }

// image is the document of the image, with a checksum.
func (d *depot) image(digest string) string {
	return document("Image", "base", fmt.Sprintf("{source: %q, sha256: %q}", d.URL+"/images/base.qcow2", digest))
}

// policy lets the gateway fetch from the depot.
func (d *depot) policy() string { return fmt.Sprintf("[https, %q]", d.URL+"/images/") }

// imageReason waits until the image's condition has a reason.
func (g *gateway) imageReason(reason string) (message string) {
	g.t.Helper()

	eventually(g.t, "the image is "+reason, func() error {
		o, err := g.get("Image", "base")
		if err != nil {
			return err
		}

		for _, c := range o.Status.Conditions {
			if c.Reason == reason {
				message = c.Message

				return nil
			}
		}

		return fmt.Errorf("%+v", o.Status.Conditions)
	})

	return message
}

// firstText reads what a volume of the hypervisor begins with, as a guest sees it.
func firstText(t *testing.T, h *hypervisor, name string) string {
	t.Helper()

	file := volumeFile(t, h, name)
	copied := filepath.Join(t.TempDir(), "raw")

	// The path of the backing file is one of the daemon's own.
	opened := fmt.Sprintf("driver=qcow2,file.filename=%s,backing.driver=qcow2,backing.file.filename=%s", file, volumeFile(t, h, "image.base."))
	if strings.Contains(name, "copy") {
		opened = "driver=qcow2,file.filename=" + file
	}

	out, err := exec.Command("qemu-img", "dd", "-U", "--image-opts", "bs=4096", "count=1", "if="+opened, "of="+copied).CombinedOutput()
	require.NoError(t, err, string(out))

	text, err := os.ReadFile(copied)
	require.NoError(t, err)

	return strings.TrimRight(string(text), "\x00")
}

// volumeFile returns where a volume, whose name begins so, is on this machine.
func volumeFile(t *testing.T, h *hypervisor, name string) string {
	t.Helper()

	found, err := filepath.Glob(filepath.Join(h.Path("/var/lib/libvirt/images"), "gateway-*", name+"*"))
	require.NoError(t, err)
	require.Len(t, found, 1, "volumes called %s…", name)

	return found[0]
}

// TestImages has images on a real hypervisor, served on this machine.
func TestImages(t *testing.T) {
	t.Parallel() // it mostly waits

	need(t, privateLibvirtd, bootingGuest)

	d := newDepot(t, "written in the image")
	guest := libvirtd.NeedGuest(t)
	h := newHypervisor(t)
	g := newGateway(t, "deletions: {max: 100%, free: 100}")
	g.imageURLs = d.policy()
	g.images = append(g.images, filepath.Dir(guest.Kernel))
	g.write("host.yaml", h.host())
	g.start()

	boot := fmt.Sprintf("boot: {kernel: %s, initrd: %s, cmdline: %q}", guest.Kernel, guest.Initrd, guest.Cmdline)

	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"what is not there is said, and nothing is left (V20)", func(t *testing.T) { imageMissing(t, g, h, d) }},
		{"twenty VMs share one download (V21)", func(t *testing.T) { imageShared(t, g, h, d) }},
		{"a guest boots from its overlay with its seed, and the image stays as it is", func(t *testing.T) { guestReadsSeed(t, g, h, d, boot) }},
		{"what is to stay stays, and nothing else", func(t *testing.T) { imageGoes(t, g, h, d) }},
	} {
		if !t.Run(part.name, func(t *testing.T) {
			defer g.under(t)()
			defer h.under(t)()

			part.run(t)
		}) {
			return
		}
	}

	g.stop()
}

func imageMissing(t *testing.T, g *gateway, h *hypervisor, d *depot) {
	d.missing.Store(true)
	g.write("image.yaml", documents(d.image(d.digest()), document("VM", "web-0", "{memory: 64MiB, power: stopped, disks: [{name: root, image: base, onDelete: remove}]}")))
	require.Contains(t, g.imageReason("ImageMissing"), "404 Not Found; the next try is at 20")
	g.reason(t, "web-0", "ImageMissing")
	require.Empty(t, volumes(t, h))

	// Another checksum: what comes is not used.
	d.missing.Store(false)
	g.write("image.yaml", documents(d.image(strings.Repeat("0", 64)), document("VM", "web-0", "{memory: 64MiB, power: stopped, disks: [{name: root, image: base, onDelete: remove}]}")))
	require.Contains(t, g.imageReason("ImageInvalid"), "its checksum is sha256 "+d.digest())
	require.Empty(t, volumes(t, h))
	require.Empty(t, h.domains())
}

func imageShared(t *testing.T, g *gateway, h *hypervisor, d *depot) {
	d.asked.Store(0)

	all := []string{d.image(d.digest())}
	for i := range 20 {
		all = append(all, document("VM", fmt.Sprintf("web-%d", i), "{memory: 64MiB, power: stopped, disks: [{name: root, image: base, onDelete: remove}]}"))
	}

	g.write("image.yaml", documents(all...))

	for i := range 20 {
		g.reason(t, fmt.Sprintf("web-%d", i), "Converged")
	}

	require.EqualValues(t, 1, d.asked.Load(), "downloads")
	require.Len(t, volumes(t, h), 21)
	require.Contains(t, h.virsh("vol-dumpxml", "--pool", poolOf(h), "web-7.root.qcow2"), "<path>"+poolPath(h)+"/image.base."+d.digest()[:16]+".qcow2</path>")
	require.Contains(t, h.virsh("vol-dumpxml", "--pool", poolOf(h), "web-7.root.qcow2"), "<capacity unit='bytes'>67108864</capacity>")
}

func poolOf(h *hypervisor) string { return h.names("pool-list", "--name")[0] }

func poolPath(h *hypervisor) string { return "/var/lib/libvirt/images/" + poolOf(h) }

func guestReadsSeed(t *testing.T, g *gateway, h *hypervisor, d *depot, boot string) {
	script := "#!/bin/sh\n{ echo \"read: $(head -c 20 /dev/vda)\"; cat /seed/meta-data; } > /written\ndd if=/written of=/dev/vda conv=fsync\n"
	require.NoError(t, os.WriteFile(g.path("secrets/user-data"), []byte(script), 0o600))

	vm := fmt.Sprintf("{memory: 128MiB, %s, disks: [{name: root, image: base, size: 96MiB}, {name: copy, image: base, clone: full, onDelete: remove}], "+
		"cloudInit: {userDataFile: %s, sshKeys: [ssh-ed25519 AAAA]}, shutdown: {grace: 2s}}", boot, g.path("secrets/user-data"))
	g.write("guest.yaml", document("VM", "guest", vm))
	g.running("guest")

	files, label, err := nocloud.Read(readFile(t, volumeFile(t, h, "guest.cloud-init.")))
	require.NoError(t, err)
	require.Equal(t, "cidata", label)
	require.Equal(t, script, files["user-data"])
	require.NotContains(t, g.cli("get", "VM", "guest", "-o", "yaml"), "/written")

	within(t, time.Minute, "the guest has written to its disk what it read from image and seed", func() error {
		if got := firstText(t, h, "guest.root.qcow2"); !strings.HasPrefix(got, "read: written in the image") || !strings.Contains(got, `"local-hostname": "guest"`) {
			return fmt.Errorf("%q", got)
		}

		return nil
	})

	require.Equal(t, "written in the image", firstText(t, h, "guest.copy.qcow2"))
	require.Equal(t, d.content, readFile(t, volumeFile(t, h, "image.base.")), "the image is as it was")
	require.Contains(t, h.virsh("domblkinfo", "guest", "vda"), "100663296", "the disk is larger than its image")

	// Another content is another seed, for the next boot.
	g.write("guest.yaml", document("VM", "guest", strings.Replace(vm, "AAAA", "BBBB", 1)))
	g.reason(t, "guest", "RestartRequired")

	o, err := g.get("VM", "guest")
	require.NoError(t, err)
	require.Equal(t, []string{"cloudInit"}, o.Status.RestartRequired)
	g.cli("restart", "guest")
	g.reason(t, "guest", "Converged")

	files, _, err = nocloud.Read(readFile(t, volumeFile(t, h, "guest.cloud-init.")))
	require.NoError(t, err)
	require.Contains(t, files["meta-data"], "BBBB")
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()

	content, err := os.ReadFile(path)
	require.NoError(t, err)

	return content
}

func imageGoes(t *testing.T, g *gateway, h *hypervisor, d *depot) {
	g.remove("guest.yaml")
	g.write("image.yaml", document("Network", "left", "{mode: isolated, subnet: 10.79.0.0/24}"))
	g.none("VM")
	g.none("Image")

	left := volumes(t, h)
	slices.Sort(left)
	require.Len(t, left, 2)
	require.Equal(t, "guest.root.qcow2", left[0])
	require.True(t, strings.HasPrefix(left[1], "image.base."), "the disk that was kept starts from it")
	require.Empty(t, h.domains())

	// Declared again nothing is fetched: the file is there.
	d.asked.Store(0)
	g.write("image.yaml", d.image(d.digest()))
	g.imageReason("ImageReady")
	require.Zero(t, d.asked.Load())

	h.virsh("vol-delete", "--pool", poolOf(h), "guest.root.qcow2")
	g.write("image.yaml", document("Network", "left", "{mode: isolated, subnet: 10.79.0.0/24}"))
	g.none("Image")
	require.Empty(t, volumes(t, h))
}
