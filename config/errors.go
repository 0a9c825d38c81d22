package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxErrors bounds what one file reports: who has more faults than this mends the first ones first.
const maxErrors = 100

// Error is one fault in a document or in the process configuration.
type Error struct {
	// File as the caller named it; the name of a variable where the value came from the environment; may be empty.
	File string
	// Line and Column start at 1 and count characters; both are 0 where there is no text, as in a merge patch.
	Line, Column int
	// Message says what is wrong, at which field, and where it can be known what would be right.
	Message string
}

// Error is the fault as file:line:column: message.
func (e Error) Error() string {
	switch {
	case e.Line > 0:
		return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
	case e.File != "":
		return e.File + ": " + e.Message
	}

	return e.Message
}

// Errors are all faults of one input, in the order of their positions.
type Errors []Error

// Error prints one fault a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, f := range e {
		lines[i] = f.Error()
	}

	return strings.Join(lines, "\n")
}

// err returns the faults as an error: sorted, without repetitions, bounded; nil when there are none.
func (e Errors) err() error {
	if len(e) == 0 {
		return nil
	}

	slices.SortStableFunc(e, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})

	e = slices.Compact(e)

	if len(e) > maxErrors {
		last := e[maxErrors-1]
		last.Message = fmt.Sprintf("more than %d faults: mend those above first", maxErrors-1)
		e = append(e[:maxErrors-1:maxErrors-1], last)
	}

	return e
}
