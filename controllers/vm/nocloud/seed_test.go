package nocloud_test

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/controllers/vm/nocloud"
)

func seed() *nocloud.Seed {
	return &nocloud.Seed{
		Instance: "9b0d", Hostname: "web-1", UserData: "#cloud-config\npackages: [nginx]\n",
		SSHKeys: []string{"ssh-ed25519 AAAA admin: \"x\"\n- y"},
		Interfaces: []nocloud.Interface{
			{
				MAC: "52:54:00:00:00:01", Address: netip.MustParsePrefix("10.7.0.10/24"), Domain: "lan.example",
				Router: netip.MustParseAddr("10.7.0.1"), Nameserver: netip.MustParseAddr("10.7.0.1"),
			},
			{MAC: "52:54:00:00:00:02"},
		},
	}
}

func read(t *testing.T, s *nocloud.Seed) map[string]string {
	t.Helper()

	image, err := s.ISO()
	require.NoError(t, err)

	files, label, err := nocloud.Read(image)
	require.NoError(t, err)
	require.Equal(t, "cidata", label)

	return files
}

func TestSeedHasWhatCloudInitReads(t *testing.T) {
	files := read(t, seed())
	require.Len(t, files, 3)
	require.Equal(t, "#cloud-config\npackages: [nginx]\n", files["user-data"])
	require.JSONEq(t, `{"instance-id": "9b0d", "local-hostname": "web-1", "public-keys": ["ssh-ed25519 AAAA admin: \"x\"\n- y"]}`, files["meta-data"])
	require.JSONEq(t, `{"version": 2, "ethernets": {
		"nic0": {
			"match": {"macaddress": "52:54:00:00:00:01"}, "dhcp4": false, "addresses": ["10.7.0.10/24"],
			"routes": [{"to": "0.0.0.0/0", "via": "10.7.0.1"}],
			"nameservers": {"addresses": ["10.7.0.1"], "search": ["lan.example"]}
		},
		"nic1": {"match": {"macaddress": "52:54:00:00:00:02"}, "dhcp4": true}
	}}`, files["network-config"])
}

func TestSeedWithoutAnAddressLeavesTheNetworkAlone(t *testing.T) {
	s := &nocloud.Seed{Instance: "9b0d", Hostname: "web-1", Interfaces: []nocloud.Interface{{MAC: "52:54:00:00:00:02"}}}
	files := read(t, s)
	require.Len(t, files, 2)
	require.Equal(t, "#cloud-config\n{}\n", files["user-data"])
	require.JSONEq(t, `{"instance-id": "9b0d", "local-hostname": "web-1"}`, files["meta-data"])
}

func TestSeedIsTheSameBytesEachTime(t *testing.T) {
	first, err := seed().ISO()
	require.NoError(t, err)

	digest, err := seed().Digest()
	require.NoError(t, err)

	require.Eventually(t, func() bool { return time.Now().UnixMilli()%100 < 50 }, time.Second, time.Millisecond) // another time

	again, err := seed().ISO()
	require.NoError(t, err)
	require.Equal(t, first, again)

	for name, change := range map[string]func(*nocloud.Seed){
		"user data": func(s *nocloud.Seed) { s.UserData += "x" },
		"key":       func(s *nocloud.Seed) { s.SSHKeys = nil },
		"host name": func(s *nocloud.Seed) { s.Hostname = "web-2" },
		"address":   func(s *nocloud.Seed) { s.Interfaces[0].Address = netip.MustParsePrefix("10.7.0.11/24") },
	} {
		other := seed()
		change(other)

		got, err := other.Digest()
		require.NoError(t, err)
		require.NotEqual(t, digest, got, name)
	}
}

func TestSeedLeavesNothingInTheTemporaryDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	read(t, seed())

	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// What a system that boots looks for is found by the tools that such systems have.
func TestSeedIsKnownByItsLabel(t *testing.T) {
	blkid, err := exec.LookPath("/usr/sbin/blkid")
	if err != nil {
		t.Skip("blkid is not installed")
	}

	image, err := seed().ISO()
	require.NoError(t, err)

	path := filepath.Join(t.TempDir(), "seed.iso")
	require.NoError(t, os.WriteFile(path, image, 0o600))

	out, err := exec.Command(blkid, "-p", "-o", "export", path).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, strings.ToLower(string(out)), "label=cidata\n")
	require.Contains(t, string(out), "TYPE=iso9660\n")
}
