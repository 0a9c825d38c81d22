package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/test/libvirtd"
)

var sshClient = part{"an ssh client", func() error {
	for _, name := range []string{"ssh", "virt-ssh-helper", "unshare", "nsenter"} {
		if _, err := exec.LookPath(name); err != nil {
			return err
		}
	}

	return nil
}}

// TestRemoteHosts has hypervisors that are reached over SSH and over TLS.
func TestRemoteHosts(t *testing.T) {
	t.Run("qemu+ssh, whose connection is cut and comes back", func(t *testing.T) {
		t.Parallel()

		need(t, privateLibvirtd, sshClient)

		h := newHypervisor(t)
		g := newGateway(t, "resync: 5m")
		key := g.path("secrets/key")
		server := libvirtd.NewSSH(t, h.Daemon, key)

		// ssh knows the server by a file that no other process sees.
		etc := g.path("ssh")
		require.NoError(t, os.CopyFS(etc, os.DirFS("/etc/ssh")))
		require.NoError(t, server.WriteKnownHosts(etc))

		g.before = []string{"unshare", "--mount", "sh", "-c", "mount --bind " + etc + ` /etc/ssh && exec "$@"`, "sh"}
		before := lifeOver(t, g, h, server.URI(key))

		modified := g.modified()

		server.Drop()
		eventually(t, "the connection is another one", func() error {
			if n, err := g.generation("far"); err != nil || n < 2 {
				return fmt.Errorf("generation %d, %w", n, err)
			}

			return nil
		})
		g.all(t, "far", "running", 1)
		require.Equal(t, modified, g.modified(), "calls that change something")
		require.Equal(t, before, h.identity("vm-1"))
		deathOver(t, g, h)
	})

	t.Run("qemu+tls", func(t *testing.T) {
		t.Parallel()

		need(t, privateLibvirtd, networkSpaces)

		h := &hypervisor{Daemon: libvirtd.New(t, libvirtd.Options{TLS: true}), t: t}
		g := newGateway(t, "resync: 5m")
		pki := g.path("secrets/pki")
		require.NoError(t, h.ClientCertificates(pki))

		// The daemon listens in a network of its own.
		g.before = []string{"nsenter", "--target", strconv.Itoa(h.PID()), "--net"}
		lifeOver(t, g, h, h.TLSURI(pki))
		deathOver(t, g, h)
	})
}

// lifeOver has a VM on a network and with a disk come up on a hypervisor, as host far.
func lifeOver(t *testing.T, g *gateway, h *hypervisor, uri string) identity {
	t.Helper()

	g.write("host.yaml", documents(document("Host", "far", fmt.Sprintf("{uri: %q}", uri)), document("Network", "lan", "{mode: isolated, subnet: 10.87.0.0/24}")))
	g.write("vm-1.yaml", document("VM", "vm-1",
		"{memory: 64MiB, shutdown: {grace: 1s}, interfaces: [{network: lan}], disks: [{name: root, size: 16MiB, onDelete: remove}]}"))
	g.start()
	g.running("vm-1")
	require.NoError(t, h.isRunning("vm-1"))

	var host struct {
		Status struct {
			Driver   string `json:"driver"`
			Capacity struct {
				CPUs   int    `json:"cpus"`
				Memory string `json:"memory"`
				Disk   string `json:"disk"`
			} `json:"capacity"`
		} `json:"status"`
	}

	// Disk is known from the pool, with the next look at the host after the first volume.
	eventually(t, "the host has the capacity that libvirt reports", func() error {
		g.decode(&host, "get", "host", "far", "-o", "json")

		if c := host.Status.Capacity; host.Status.Driver != "QEMU" || c.CPUs == 0 || c.Memory == "" || c.Disk == "" {
			return fmt.Errorf("%+v", host.Status)
		}

		return nil
	})

	return h.identity("vm-1")
}

func deathOver(t *testing.T, g *gateway, h *hypervisor) {
	t.Helper()
	g.remove("vm-1.yaml")
	g.none("VM")
	emptied(t, h)
	require.Empty(t, volumes(t, h))
	g.stop()
}

// generation is the number of a host's connection.
func (g *gateway) generation(host string) (int64, error) {
	var o struct {
		Status struct {
			Generation int64 `json:"generation"`
			Connected  bool  `json:"connected"`
		} `json:"status"`
	}

	g.decode(&o, "get", "host", host, "-o", "json")

	if !o.Status.Connected {
		return 0, fmt.Errorf("it is not connected")
	}

	return o.Status.Generation, nil
}
