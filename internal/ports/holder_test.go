package ports_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/internal/ports"
)

func TestWhoListensIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	name, err := os.ReadFile("/proc/self/comm")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf(" by %s (pid %d)", strings.TrimSpace(string(name)), os.Getpid()), ports.Holder(l.Addr().String()))

	address := l.Addr().String()
	require.NoError(t, l.Close())
	require.Empty(t, ports.Holder(address), "nobody listens any more")
	require.Empty(t, ports.Holder("no address"))
}
