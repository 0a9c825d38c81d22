package libvirtd_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/test/libvirtd"
)

func TestADaemonAnswersIsKilledAndComesBack(t *testing.T) {
	d := libvirtd.New(t, libvirtd.Options{})

	out, err := d.Virsh("list", "--all", "--name")
	require.NoError(t, err)
	require.Empty(t, out, "nothing of the machine's libvirt is in it")

	out, err = d.TestVirsh("list", "--name")
	require.NoError(t, err)
	require.Equal(t, "test", out)

	before := d.PID()
	require.NoError(t, d.Kill())

	_, err = d.Virsh("list")
	require.Error(t, err)

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	require.NoError(t, d.Restart(ctx))
	require.NotEqual(t, before, d.PID())

	_, err = d.Virsh("list")
	require.NoError(t, err)
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	libvirtd.Need(t)

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	d, err := libvirtd.Start(ctx, libvirtd.Options{})
	require.NoError(t, err)

	root := d.Path("/var/lib/libvirt")
	pid := d.PID()

	require.NoError(t, d.Close())
	require.NoDirExists(t, root)

	_, err = os.Stat(fmt.Sprintf("/proc/%d", pid))
	require.Error(t, err)
}

func TestTheGuestIsBuiltOnce(t *testing.T) {
	first := libvirtd.NeedGuest(t)

	before, err := os.Stat(first.Initrd)
	require.NoError(t, err)

	second := libvirtd.NeedGuest(t)
	require.Equal(t, first, second)

	after, err := os.Stat(second.Initrd)
	require.NoError(t, err)
	require.Equal(t, before.ModTime(), after.ModTime())
	require.FileExists(t, second.Kernel)
}
