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

// results is the committed table: the ratio and the whole line of each row.
type results struct {
	ratios map[string]string
	lines  []string
}

// readResults reads the committed table.
func readResults(name string) (r results, err error) {
	text, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return r, nil
	}

	if err != nil {
		return r, fmt.Errorf("error reading the last results: %w", err)
	}

	r.ratios = map[string]string{}

	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) > 5 && !strings.Contains(header, line) {
			r.ratios[nameIn(line)] = strings.TrimSpace(cells[4])
			r.lines = append(r.lines, line)
		}
	}

	return r, nil
}

// nameIn returns the row that a line of a table is about.
func nameIn(line string) string {
	if cells := strings.Split(line, "|"); len(cells) > 1 {
		return strings.TrimSpace(cells[1])
	}

	return ""
}

// writeResults replaces the rows of the committed table that were measured.
func writeResults(name, table string, before results) error {
	measured := map[string]bool{}
	for line := range strings.Lines(table) {
		measured[nameIn(line)] = true
	}

	for _, line := range before.lines {
		if !measured[nameIn(line)] {
			table += line
		}
	}

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
