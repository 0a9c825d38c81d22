package ports

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listening is the state of such a socket in /proc/net/tcp.
const listening = "0A"

// Holder is who listens on the port of an address, in words that follow "in use": ` by nginx (pid 123)`. It is empty where that
// can't be known: without /proc, or where the process is another user's.
func Holder(address string) string {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}

	port, err := strconv.Atoi(text)
	if err != nil {
		return ""
	}

	sockets := append(listeners("/proc/net/tcp", port), listeners("/proc/net/tcp6", port)...)
	if len(sockets) == 0 {
		return ""
	}

	open, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return ""
	}

	for _, fd := range open {
		target, err := os.Readlink(fd)
		if err != nil || !slices.Contains(sockets, target) {
			continue
		}

		process := filepath.Dir(filepath.Dir(fd))

		name, err := os.ReadFile(filepath.Join(process, "comm"))
		if err != nil {
			continue
		}

		return fmt.Sprintf(" by %s (pid %s)", bytes.TrimSpace(name), filepath.Base(process))
	}

	return ""
}

// listeners returns the sockets of a table that listen on a port, as links to them read: socket:[INODE].
func listeners(table string, port int) (sockets []string) {
	f, err := os.Open(table)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // it was only read

	suffix := fmt.Sprintf(":%04X", port)

	// sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && strings.HasSuffix(fields[1], suffix) && fields[3] == listening {
			sockets = append(sockets, "socket:["+fields[9]+"]")
		}
	}

	return sockets
}
