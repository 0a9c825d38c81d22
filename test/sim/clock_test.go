package sim

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// maxAhead is how far from the right time a clock is: so that no two readings are a day apart, after which the journal forgets.
const maxAhead = 10 * time.Hour

// clockSeeds is how many seeds TestSeedsWhereTheClockIsSet plays without SIM_CLOCK_SEEDS: without the race detector, four times as
// many as with it take the same time.
const clockSeeds = 400

// stepClock sets the wall clock forward or back, as an operator, a time server or a hypervisor that suspended the machine do.
func (w *world) stepClock() {
	if !clockSteps {
		return
	}

	ahead := time.Duration(0)
	if w.rand.IntN(4) > 0 {
		limit := []time.Duration{10 * time.Second, 10 * time.Minute, maxAhead}[w.rand.IntN(3)]
		ahead = (time.Duration(w.rand.Int64N(int64(2*limit))) - limit).Truncate(time.Second)
	}

	w.trace.add("the clock is set to %s ahead", ahead)
	setClock(ahead)
}

// rightClock sets the clock to the right time.
func (w *world) rightClock() {
	if clockSteps {
		w.trace.add("the clock is set right")
	}

	setClock(0)
}

// The wall clock of the whole program is set forward and back, while what measures time by the monotonic clock sees nothing of
// that: the program is built with a time.Now of its own, which an overlay puts into the standard library. It also gives times
// their monotonic reading, which those of a bubble do not have. SIM_CLOCK_SEEDS is how many seeds are played, from SIM_FIRST on.
func TestSeedsWhereTheClockIsSet(t *testing.T) {
	if testing.Short() || clockSteps || os.Getenv("SIM_SEED") != "" || os.Getenv("SIM_UNTIL_FOUND") != "" {
		t.Skip("it is built by itself")
	}

	seeds, _ := number(t, "SIM_CLOCK_SEEDS", clockSeeds)
	first, _ := number(t, "SIM_FIRST", 0)
	program := buildWithClock(t)

	// One clock for a process: two processes have two cores at work.
	var running sync.WaitGroup

	for half := range 2 {
		running.Go(func() {
			run := exec.Command(program, "-test.run", "^TestSeeds$", "-test.parallel", "1", "-test.timeout", "10h")
			run.Env = append(os.Environ(), fmt.Sprintf("SIM_FIRST=%d", first+half*(seeds/2)), fmt.Sprintf("SIM_SEEDS=%d", (seeds+half)/2))

			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("%v; %s -test.run Seeds with SIM_SEED plays one of them\n%s", err, program, out)
			}
		})
	}

	running.Wait()
}

// buildWithClock builds the simulator with a wall clock that can be set.
func buildWithClock(t *testing.T) (program string) {
	t.Helper()

	root, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)

	path := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	source, err := os.ReadFile(path)
	require.NoError(t, err)

	dir, text := t.TempDir(), string(source)

	for old, replacement := range map[string]string{
		"import (\n\t\"errors\"\n":                 "import (\n\t\"errors\"\n\t\"sync/atomic\"\n",
		"// Now returns the current local time.\n": "// Step is how many seconds the wall clock was set forward.\nvar Step atomic.Int64\n\n// Now returns the current local time.\n",
		"func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n": "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n" +
			"\tif runtimeIsBubbled() {\n\t\tsec, mono = sec+Step.Load(), runtimeNano()\n\t}\n",
	} {
		require.Equal(t, 1, strings.Count(text, old), "the standard library's time.go has %q no more", old)
		text = strings.Replace(text, old, replacement, 1)
	}

	changed, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(changed, []byte(text), 0o600))
	require.NoError(t, os.WriteFile(overlay, replace, 0o600))

	program = filepath.Join(dir, "sim.test")
	if keep := os.Getenv("SIM_CLOCK_PROGRAM"); keep != "" {
		program = keep
	}

	out, err := exec.Command("go", "test", "-c", "-vet=off", "-tags", "clocksteps", "-overlay", overlay, "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)

	return program
}
