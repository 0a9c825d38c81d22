package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSimHost is the promise to somebody who has nothing but the binary: an empty directory, a simulated host, a VM.
func TestSimHost(t *testing.T) {
	need(t, natsCLI)

	g := newGateway(t, "")
	g.write("lab.yaml", documents(document("Host", "a", `{uri: "sim://a"}`), document("VM", "web-1", "{memory: 128MiB}")))

	begin := time.Now()
	g.launch()
	require.LessOrEqual(t, g.firstRunning("web-1", begin), stretched(2*time.Second), "from the start of the process until `gateway get` shows running")
	g.listens()

	client := &nats{t: t, url: g.nats}
	sameStatus(t, g, client)

	code, body := g.httpGet("/healthz")
	require.Equal(t, 200, code, body)

	eventually(t, "the gateway is ready", func() error {
		code, body := g.httpGet("/readyz")
		if code != 200 {
			return fmt.Errorf("%d %s", code, body)
		}

		return nil
	})

	g.stop()
}

// firstRunning asks for a VM until it is running, and returns when that was after begin.
func (g *gateway) firstRunning(name string, begin time.Time) time.Duration {
	g.t.Helper()

	eventually(g.t, "VM "+name+" is running", func() error {
		o, err := g.get("VM", name)
		if err == nil && o.Status.State != "running" {
			err = fmt.Errorf("it is %q: %+v", o.Status.State, o.Status)
		}

		return err
	})

	return time.Since(begin)
}

// sameStatus requires that the subject, the bucket and `gateway get` show the same status of web-1.
func sameStatus(t *testing.T, g *gateway, client *nats) {
	t.Helper()

	// The command is not quick to subscribe: the change is made again until it has the message.
	subscription := client.follow("sub", "gateway.vm.*.status", "--count", "1", "--raw")

	eventually(t, "a status arrives on the subject", func() error {
		g.cli("hold", "VM", "web-1")

		select {
		case <-subscription.done:
			return nil
		case <-time.After(200 * time.Millisecond):
		}

		g.cli("release", "VM", "web-1")

		return fmt.Errorf("nothing was published yet")
	})

	require.Len(t, subscription.lines(), 1)

	event := decodeEvent(t, subscription.lines()[0])
	require.Equal(t, "1.0", event.SpecVersion)
	require.Equal(t, "gateway.vm.status.v1", event.Type)
	require.Equal(t, "vm/web-1", event.Subject)
	require.True(t, strings.HasPrefix(event.Source, "/gateway/"))

	// All that has been published so far is what the bucket has: the last change is the one that is on the subject.
	eventually(t, "the bucket has the bytes of the last message", func() error {
		last, err := client.run("stream", "get", "GATEWAY_STATUS", "--last-for", "gateway.vm.web-1.status", "--json")
		if err != nil {
			return err
		}

		kept, err := client.run("kv", "get", "gateway-vm-status", "web-1", "--raw")
		if err != nil {
			return err
		}

		if published := payload(t, last); strings.TrimSpace(kept) != published {
			return fmt.Errorf("the bucket has %s, the subject %s", kept, published)
		}

		o, err := g.get("VM", "web-1")
		require.NoError(t, err)

		if now := decodeEvent(t, kept).Data; now.State != o.Status.State || now.Held != o.Status.Held || now.DomainUUID != o.Status.DomainUUID {
			return fmt.Errorf("the bucket has %+v, `gateway get` shows %+v", now, o.Status)
		}

		return nil
	})
}

// TestDefaults starts the gateway as a person does at first, without a configuration, in a machine of its own.
func TestDefaults(t *testing.T) {
	need(t, networkSpaces, natsCLI)

	g := newGateway(t, "")
	g.write("lab.yaml", documents(document("Host", "a", `{uri: "sim://a"}`), document("VM", "web-1", "{}")))
	g.process = startProcess(t, g.dir, "unshare", "--net", "sh", "-c", "ip link set lo up && exec "+binary+" run")
	g.socketIn("gateway-data")
	g.firstRunning("web-1", time.Now())

	inside := []string{"nsenter", "--net", "--target", fmt.Sprint(g.pid())}
	client := &nats{t: t, url: "nats://127.0.0.1:4222", before: inside}

	eventually(t, "the bucket shows the VM running", func() error {
		kept, err := client.run("kv", "get", "gateway-vm-status", "web-1", "--raw")
		if err == nil && decodeEvent(t, kept).Data.State != "running" {
			err = fmt.Errorf("%s", kept)
		}

		return err
	})

	t.Run("a port that is taken is named, with the key to change it", func(t *testing.T) {
		second := startProcess(t, g.dir, append(inside, binary, "run", "--data-dir", g.path("other"), "--documents", g.documents())...)
		<-second.exited
		require.Equal(t, 1, second.cmd.ProcessState.ExitCode())
		require.Contains(t, second.log.String(), "8080")
		require.Contains(t, second.log.String(), "http.listen")
	})

	t.Run("the data directory belongs to one", func(t *testing.T) {
		second := startProcess(t, g.dir, append(inside, binary, "run")...)
		<-second.exited
		require.Equal(t, 1, second.cmd.ProcessState.ExitCode())
		require.Contains(t, second.log.String(), fmt.Sprint(g.pid()))
	})

	require.NoError(t, syscall.Kill(g.pid(), syscall.SIGINT))
	require.Equal(t, 0, g.exitCode(5*time.Second))
}

// socketIn makes the data directory of a gateway that was started without a configuration known to the commands.
func (g *gateway) socketIn(dir string) {
	g.t.Helper()
	require.NoError(g.t, os.Symlink(filepath.Join(g.dir, dir), g.path("data")))
}
