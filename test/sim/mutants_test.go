package sim

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mutant is a fault that is planted in the code: every old in the file becomes new.
type mutant struct{ name, file, old, new string }

// mutants are listed in docs/simulator.md.
var mutants = []mutant{
	{
		"a resource in teardown is taken for one that can be used", "controllers/chain/chain.go",
		"if !Running(current) {\n\t\treturn false, Release", "if false {\n\t\treturn false, Release",
	},
	{"a VM's first step does not wait for the store", "controllers/vm/pass.go", "if !p.durable {", "if false {"},
	{
		"a host that does not answer has no domain", "controllers/vm/observe.go",
		"case !errors.Is(err, hypervisor.ErrNotFound):", "case !errors.Is(err, hypervisor.ErrNotFound) && !errors.Is(err, hypervisor.ErrUnreachable):",
	},
	{"the key of a delivery is not written", "store/journal.go", "ops = append(ops, keyOp(&e))", "_ = keyOp(&e)"},
	{"the barrier does not wait", "store/queue.go", "target := q.appended", "target := q.committed"},
	{"a network is taken away under a domain", "controllers/network/bind.go", "(defining || domain != nil && uses(domain, b))", "false && defining"},
	{
		"a status is published before it is durable", "sinks/status/sink.go",
		"if err := s.Barrier.Barrier(ctx); err != nil {", "if err := ctx.Err(); err != nil {",
	},
	{"a message overtakes another", "controllers/documents/turns.go", "theirs.before(mine, other, id) {", "theirs.before(mine, other, id) && false {"},
	{"only messages that were looked at are waited for", "controllers/documents/turns.go", "if c.turns.knows(id) {", "if true {"},
	{"a message is acknowledged before it is durable", "sources/subscriptions/settling.go", "err := barrier.Barrier(limited)", "err := limited.Err()"},
	{
		"a subscription is not listened to again", "sources/subscriptions/controller.go",
		"c.workers, c.listed = map[string]*worker{}, false", "if c.workers == nil {\n\t\tc.workers = map[string]*worker{}\n\t}",
	},
	{
		"events are published before they are durable", "sinks/events/batch.go",
		"if err := s.Barrier.Barrier(ctx); err != nil {", "if err := ctx.Err(); err != nil {",
	},
	{
		"a batch goes on over a message that was lost", "sinks/events/batch.go",
		"if err := s.land(ctx, flights); err != nil {", "if err := s.land(ctx, flights); ctx.Err() != nil {",
	},
	{
		"an action that could not be sent is done", "sinks/actions/sink.go",
		"final = err != nil && tolerated.isFinal(err)", "final, err = false, nil",
	},
	{"the last to leave a network does not remove it", "controllers/network/segment.go", "p.remove = s.made", "p.remove = false"},
	{
		"a placement is let go of while the domain is there", "controllers/vm/teardown.go",
		"if gone, err := p.leaveHost(ctx); err != nil || !gone {", "if _, err := p.leaveHost(ctx); err != nil {",
	},
	{
		"an event becomes durable without its entry", "store/bolt_backing.go",
		"if t := jointOf(ctx); t != nil {", "if t := jointOf(ctx); t != nil && false {",
	},
}

// Every planted fault still fits the code.
func TestMutantsFit(t *testing.T) {
	for _, m := range mutants {
		source, err := os.ReadFile(filepath.Join("..", "..", m.file))
		require.NoError(t, err)
		require.Contains(t, string(source), m.old, m.name)
	}
}

var foundAfter = regexp.MustCompile(`found after (\d+) seeds`)

// Every planted fault is found. It takes an hour, so it runs only with SIM_MUTANTS=1; SIM_MUTANTS=WORDS runs those whose name
// has the words.
func TestMutantsAreFound(t *testing.T) {
	chosen := os.Getenv("SIM_MUTANTS")
	if chosen == "" {
		t.Skip("SIM_MUTANTS is not set")
	}

	for _, m := range mutants {
		if chosen != "1" && !strings.Contains(m.name, chosen) {
			continue
		}

		t.Run(m.name, func(t *testing.T) {
			start := time.Now()
			out := m.run(t)

			found := foundAfter.FindStringSubmatch(out)
			if found == nil && !strings.Contains(out, "panic:") {
				t.Fatalf("not found: %.2000s", out)
			}

			t.Logf("%s: %v, in %s", m.name, found, time.Since(start).Round(time.Second))

			if os.Getenv("SIM_TRACE") != "" {
				fmt.Println(out)
			}
		})
	}
}

// run builds the simulator with the fault in it, and runs seeds until one fails.
func (m *mutant) run(t *testing.T) string {
	t.Helper()

	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)

	path := filepath.Join(root, m.file)
	source, err := os.ReadFile(path)
	require.NoError(t, err)

	dir := t.TempDir()
	changed := filepath.Join(dir, "changed.go")
	require.NoError(t, os.WriteFile(changed, []byte(strings.ReplaceAll(string(source), m.old, m.new)), 0o600))

	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))

	program := filepath.Join(dir, "sim.test")
	build := exec.Command("go", "test", "-c", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./test/sim")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	seeds := exec.Command(program, "-test.run", "TestSeeds", "-test.timeout", "30m")
	seeds.Env = append(os.Environ(), "SIM_UNTIL_FOUND=1", "SIM_MUTANTS=")

	if os.Getenv("SIM_SEEDS") == "" {
		seeds.Env = append(seeds.Env, "SIM_SEEDS=2000")
	}

	out, _ = seeds.CombinedOutput() // it fails, which is the point

	return string(out)
}
