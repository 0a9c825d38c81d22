package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// inNet runs a program where the daemon's networks are, and returns what it printed.
func (h *hypervisor) inNet(args ...string) (string, error) {
	cmd := exec.Command("nsenter", append([]string{"--target", strconv.Itoa(h.PID()), "--net"}, args...)...)
	out, err := cmd.CombinedOutput()

	if err != nil {
		err = fmt.Errorf("error running %s: %w: %s", strings.Join(args, " "), err, out)
	}

	return strings.TrimSpace(string(out)), err
}

// pings returns nil where an address answers from the host that the guest is on.
func (h *hypervisor) pings(address string) error {
	_, err := h.inNet("ping", "-c", "1", "-W", "1", address)

	return err
}

// named returns the document of the host that it is, under a name.
func (h *hypervisor) named(name, more string) string {
	return document("Host", name, fmt.Sprintf("{uri: %q, capacity: {cpus: 64, memory: 64TiB}%s}", h.URI(), more))
}

// left names everything on the hypervisor that VMs leave behind when they are not taken apart: domains, networks, bridges, and
// the files of both. Volumes are not among it.
func (h *hypervisor) left() (all []string) {
	h.t.Helper()

	for _, d := range h.domains() {
		all = append(all, "domain "+d)
	}

	for _, n := range h.networks() {
		all = append(all, "network "+n)
	}

	links, err := h.inNet("ip", "-o", "link")
	require.NoError(h.t, err)

	for line := range strings.Lines(links) {
		if name := strings.Fields(line)[1]; name != "lo:" && !isTunnel(name) {
			all = append(all, "link "+name)
		}
	}

	for _, dir := range []string{"/etc/libvirt/qemu", "/var/lib/libvirt/dnsmasq", "/var/lib/libvirt/qemu", "/run/libvirt/qemu", "/run/libvirt/network"} {
		all = append(all, h.filesOf(dir)...)
	}

	return all
}

// isTunnel reports whether a link is one that the kernel puts into every network namespace.
func isTunnel(name string) bool {
	return slices.ContainsFunc([]string{"tunl0", "sit0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "ip6gre0"}, func(known string) bool {
		return strings.HasPrefix(name, known)
	})
}

// filesOf names the files in a directory of the daemon that belong to a domain or a network.
func (h *hypervisor) filesOf(dir string) (names []string) {
	h.t.Helper()

	root := h.Path(dir)

	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !isOfGuests(entry.Name()) || isStale(path) || h.isLate(path) {
			return err
		}

		rest, err := filepath.Rel(root, path)
		names = append(names, "file "+filepath.Join(dir, rest))

		return err
	})
	if err != nil && !strings.Contains(err.Error(), "no such file") { // libvirt takes files away meanwhile
		require.NoError(h.t, err)
	}

	return names
}

// isStale reports whether a file has the id of a process that is gone: a dnsmasq that has to be killed leaves it.
func isStale(path string) bool {
	text, err := os.ReadFile(path)
	if err != nil || filepath.Ext(path) != ".pid" {
		return false
	}

	_, err = os.Stat("/proc/" + strings.TrimSpace(string(text)))

	return errors.Is(err, os.ErrNotExist)
}

// isLate reports whether a file has leases of a bridge that is gone. dnsmasq starts a helper of libvirt's for each lease, which
// writes this file: one that still runs when libvirt has ended the network and removed the file makes it anew.
func (h *hypervisor) isLate(path string) bool {
	bridge, isLeases := strings.CutSuffix(filepath.Base(path), ".status")
	if !isLeases {
		return false
	}

	if _, err := os.Stat(path); err != nil {
		return false
	}

	links, err := h.inNet("ip", "-o", "link")
	require.NoError(h.t, err)

	return !strings.Contains(links, " "+bridge+":")
}

// isOfGuests reports whether a file's name has the name of a VM or a network of these tests in it.
func isOfGuests(name string) bool {
	return slices.ContainsFunc([]string{"vm-", "lan", "dmz", "gw"}, func(part string) bool { return strings.Contains(name, part) })
}

// emptied waits until nothing is left of VMs and networks on hypervisors.
func emptied(t *testing.T, hosts ...*hypervisor) {
	t.Helper()

	eventually(t, "nothing is left", func() error {
		for i, h := range hosts {
			if left := h.left(); len(left) > 0 {
				return fmt.Errorf("on host %d: %s", i, left)
			}
		}

		return nil
	})
}
