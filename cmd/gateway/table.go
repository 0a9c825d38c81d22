package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table prints rows in columns. Rows that come later (a watch) keep the widths of the first ones.
type table struct {
	out    io.Writer
	header []string
	// least are the smallest widths: of a list that may begin empty.
	least  []int
	widths []int
}

// columnGap is the space between columns.
const columnGap = "   "

func newTable(out io.Writer, header ...string) *table { return &table{out: out, header: header} }

// print prints rows, the first time below the header. Empty values are shown as -.
func (t *table) print(rows ...[]string) {
	for _, row := range rows {
		for i := range row {
			row[i] = cell(row[i])
		}
	}

	if t.widths == nil {
		rows = append([][]string{t.header}, rows...)
		t.widths = make([]int, len(t.header))
		copy(t.widths, t.least)

		for _, row := range rows {
			for i, value := range row {
				t.widths[i] = max(t.widths[i], utf8.RuneCountInString(value))
			}
		}
	}

	for _, row := range rows {
		var line strings.Builder

		for i, value := range row {
			line.WriteString(value)

			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", max(t.widths[i]-utf8.RuneCountInString(value), 0)) + columnGap)
			}
		}

		fmt.Fprintln(t.out, strings.TrimRight(line.String(), " "))
	}
}

// cell is a value as one line without control characters: what is shown came from outside.
func cell(value string) string {
	value = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}

		return r
	}, value)

	if value = strings.TrimSpace(value); value == "" {
		return "-"
	}

	return value
}
