package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// benchmark measures one or more rows.
type benchmark struct {
	name string
	run  func(ctx context.Context, b *bench) ([]row, error)
}

// benchmarks are all of them, in the order of the table.
var benchmarks = []benchmark{
	{"documents", documentsRow},
	{"latency", latencyRow},
	{"durable", durableRow},
	{"webhook", webhookRows},
	{"status", statusRow},
	{"libvirt", libvirtRow},
	{"qemu", qemuRow},
	{"growth", growthRows},
	{"restart", restartRows},
	{"hanging", hangingRow},
}

// bench is one run.
type bench struct {
	// dir is a temporary directory on the disk that is measured.
	dir string
	// quick makes everything small: to see that it works.
	quick bool
	// profiles, if set, is where children write their CPU and heap profiles.
	profiles string
	made     int
}

// size returns full, or small in a quick run.
func (b *bench) size(full, small int) int {
	if b.quick {
		return small
	}

	return full
}

// newDir makes a directory for one measurement.
func (b *bench) newDir() (string, error) {
	b.made++
	dir := filepath.Join(b.dir, fmt.Sprintf("%02d", b.made))

	return dir, os.Mkdir(dir, 0o700)
}

func main() {
	os.Exit(run())
}

func run() int {
	only := flag.String("only", "", "comma-separated `names` of benchmarks: "+strings.Join(names(), ", "))
	quick := flag.Bool("quick", false, "small numbers: to see that it works")
	write := flag.Bool("write", false, "write the rows that were measured to "+resultsFile)
	dir := flag.String("dir", "", "the `directory` on the disk to measure; default: the temporary one")
	profiles := flag.String("profiles", "", "write CPU and heap profiles to this `directory`")
	child := flag.String("child", "", "used by the program itself")
	flag.Parse()

	if *child != "" {
		return runChild(*child)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	temporary, err := os.MkdirTemp(*dir, "gateway-bench")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(temporary) //nolint:errcheck // temporary

	b := &bench{dir: temporary, quick: *quick, profiles: *profiles}

	rows, failed := measure(ctx, b, *only)

	before, err := readResults(resultsFile)
	if err != nil {
		return fail(err)
	}

	table := format(rows, before.ratios)
	fmt.Println("\n" + table)

	if *write {
		if err := writeResults(resultsFile, table, before); err != nil {
			return fail(err)
		}
	}

	if failed {
		return 1
	}

	return 0
}

// measure runs the chosen benchmarks. One that fails is told and does not stop the others.
func measure(ctx context.Context, b *bench, only string) (rows []row, failed bool) {
	chosen := strings.Split(only, ",")

	for _, m := range benchmarks {
		if only != "" && !slices.Contains(chosen, m.name) || ctx.Err() != nil {
			continue
		}

		start := time.Now()
		fmt.Fprintf(os.Stderr, "%s …\n", m.name)

		got, err := m.run(ctx, b)
		if err != nil {
			failed = true

			fmt.Fprintf(os.Stderr, "%s: %s\n", m.name, err)
		}

		rows = append(rows, got...)

		for _, r := range got {
			fmt.Fprintf(os.Stderr, "  %s\n", r)
		}

		fmt.Fprintf(os.Stderr, "  took %s\n", time.Since(start).Round(time.Second))
	}

	return rows, failed
}

func names() []string {
	all := make([]string, len(benchmarks))
	for i, m := range benchmarks {
		all[i] = m.name
	}

	return all
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)

	return 1
}
