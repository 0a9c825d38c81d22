package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// row is one line of the table.
type row struct {
	// name says what is measured; it is what rows are compared by.
	name string
	// ours and limit are the two figures as text, with units.
	ours, limit string
	// ratio is what the goal is about; 0: there is none.
	ratio float64
	goal  string
	// ok is yes, no, or empty where there is no goal.
	ok string
}

func (r row) String() string {
	return fmt.Sprintf("%s: %s; limit %s; ratio %s; goal %s %s", r.name, r.ours, r.limit, number(r.ratio), r.goal, r.ok)
}

// meets is the verdict of a goal.
func meets(ok bool) string {
	if ok {
		return "yes"
	}

	return "no"
}

// skipped is the row of something that can't be measured here.
func skipped(name, goal string, why error) row {
	return row{name: name, ours: "skipped: " + why.Error(), goal: goal}
}

const header = "| row | ours | limit in the same run | ratio | before | goal | ok? |\n| --- | --- | --- | --- | --- | --- | --- |\n"

// format returns the table with the ratios of the last one beside the new ones.
func format(rows []row, before map[string]string) string {
	var b strings.Builder

	b.WriteString(header)

	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n",
			r.name, r.ours, r.limit, number(r.ratio), change(r.ratio, before[r.name]), r.goal, r.ok)
	}

	return b.String()
}

// change returns the ratio of the last table and by how much it differs.
func change(now float64, before string) string {
	old, err := strconv.ParseFloat(before, 64)
	if err != nil || old == 0 || now == 0 {
		return before
	}

	return fmt.Sprintf("%s (%+.0f %%)", before, 100*(now/old-1))
}

func number(f float64) string {
	if f == 0 {
		return ""
	}

	return strconv.FormatFloat(f, 'f', 2, 64)
}

// resultsFile is relative to the root of the repository, where `make bench` runs.
const resultsFile = "bench/RESULTS.md"

// readResults returns the ratios of the committed table by the name of the row.
func readResults(name string) (map[string]string, error) {
	text, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return nil, nil
	}

	if err != nil {
		return nil, fmt.Errorf("error reading the last results: %w", err)
	}

	ratios := map[string]string{}

	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) > 5 {
			ratios[strings.TrimSpace(cells[1])] = strings.TrimSpace(cells[4])
		}
	}

	return ratios, nil
}

// writeResults replaces the committed table.
func writeResults(name, table string) error {
	text := fmt.Sprintf("# Results\n\n%s; %d cores shared with other work, %s of memory, %s. Written by `go run ./bench -write`: each limit is measured in the "+
		"same run, since absolute figures differ from run to run; read the ratios.\n\n%s", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(),
		memory(), runtime.Version(), table)

	if err := os.WriteFile(name, []byte(text), 0o644); err != nil { //nolint:gosec // it is committed
		return fmt.Errorf("error writing the results: %w", err)
	}

	return nil
}

// memory returns the memory of the machine.
func memory() string {
	kib, err := procField("/proc/meminfo", "MemTotal:")
	if err != nil {
		return "an unknown amount"
	}

	return fmt.Sprintf("%d GiB", (kib+1<<19)>>20)
}
