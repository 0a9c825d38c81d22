package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"gateway/api/client"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gateway": main})
}

// TestScripts runs the scripts of testdata/script: each a session of somebody at a terminal, with a gateway of its own on
// simulated hosts where it needs one.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			// A script's own directory has a path that may be too long for a socket.
			dir, err := os.MkdirTemp("", "gw")
			if err != nil {
				return err
			}

			env.Defer(func() { _ = os.RemoveAll(dir) }) // what stays behind is in the temporary directory
			env.Setenv("DATA", dir)
			env.Setenv("GATEWAY_SERVER", "unix://"+filepath.Join(dir, "gateway.sock"))
			env.Setenv("GATEWAY_NATS_EMBEDDED_LISTEN", "127.0.0.1:0")
			env.Setenv("GATEWAY_HTTP_LISTEN", "127.0.0.1:0")

			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"answers": answers, "exits": exits, "signal": send, "sees": sees},
	})
}

// answers waits until the script's gateway answers.
func answers(ts *testscript.TestScript, _ bool, _ []string) {
	c, err := client.New(ts.Getenv("GATEWAY_SERVER"))
	ts.Check(err)

	defer c.Close()

	await(ts, func(ctx context.Context) error {
		_, err := c.Version(ctx)

		return err
	})
}

// sees waits until a file that something in the background writes has a text: sees FILE REGEXP.
func sees(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: sees FILE REGEXP")
	}

	pattern, err := regexp.Compile(args[1])
	ts.Check(err)

	await(ts, func(context.Context) error {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && !pattern.Match(text) {
			err = fmt.Errorf("%s has no %q:\n%s", args[0], args[1], text)
		}

		return err
	})
}

// await waits until a check passes.
func await(ts *testscript.TestScript, check func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()

	for {
		err := check(ctx)
		if err == nil {
			return
		}

		select {
		case <-ctx.Done():
			ts.Fatalf("waited for too long: %v", err)
		case <-ticker.C:
		}
	}
}

// send sends a signal to what runs in the background: signal HUP. The kill of testscript knows two only.
func send(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]os.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM}
	if len(args) != 1 || signals[args[0]] == nil {
		ts.Fatalf("usage: signal HUP|TERM")
	}

	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(signals[args[0]]))
	}
}

// exits runs a command and compares its exit code: exits 2 gateway get.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}

	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		if _, scanErr := fmt.Sscanf(err.Error(), "exit status %d", &code); scanErr != nil {
			ts.Fatalf("%v: %v", args[1:], err)
		}
	}

	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("%v: exit code %d, not %s", args[1:], code, args[0])
	}
}
