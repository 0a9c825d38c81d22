package main

import (
	"context"
	"fmt"
	"slices"

	"gateway/api/client"
)

// watch prints objects, and then each change of them.
func (a *app) watch(ctx context.Context, c *client.Client, flags getFlags) error {
	visit := a.watchTable(flags)

	switch flags.output {
	case outputJSON, outputYAML, outputName:
		visit = a.watchObjects(flags.output)
	}

	return c.Watch(ctx, flags.kind.Name, flags.name, flags.selector, visit)
}

// watchObjects prints each change as an object: JSON on one line, YAML as a document, or its name. One that is gone has
// metadata only.
func (a *app) watchObjects(output string) func(client.Change) (bool, error) {
	return func(change client.Change) (bool, error) {
		if change.Type == client.Synced {
			return true, nil
		}

		if output == outputName {
			_, err := fmt.Fprintln(a.out, change.Kind+"/"+change.Name)

			return true, err
		}

		object := any(change.Object)
		if change.Object == nil {
			object = gone{Kind: change.Kind, Metadata: goneMetadata{change.Name}, Deleted: true}
		}

		if output == outputYAML {
			if _, err := fmt.Fprintln(a.out, "---"); err != nil {
				return false, err
			}

			return true, writeYAML(a.out, object)
		}

		line, err := lineJSON(object)
		if err != nil {
			return false, err
		}

		_, err = a.out.Write(line)

		return true, err
	}
}

// gone is what a watch says of an object that was deleted.
type gone struct {
	Kind     string       `json:"kind"`
	Metadata goneMetadata `json:"metadata"`
	Deleted  bool         `json:"deleted"`
}

type goneMetadata struct {
	Name string `json:"name"`
}

// leastWidth of a column in a list that may begin empty.
const leastWidth = 10

// watchTable prints a row for each change that shows in the table; the age of an object is none.
func (a *app) watchTable(flags getFlags) func(client.Change) (bool, error) {
	columns := columnsOf(flags.kind, flags.output == outputWide)
	out := newTable(a.out, columns.header...)
	out.least = slices.Repeat([]int{leastWidth}, len(columns.header)-1)
	age := slices.Index(columns.header, "AGE")
	last := map[string][]string{}

	var first [][]string

	return func(change client.Change) (bool, error) {
		var row []string

		switch {
		case change.Type == client.Synced:
			out.print(first...)

			return true, nil
		case change.Object == nil:
			row = make([]string, len(columns.header))
			row[0], row[1] = change.Name, "deleted"

			if known := last[change.Name]; known != nil {
				row[0] = known[0] // a file has its path there
			}

			delete(last, change.Name)
		default:
			var err error
			if row, err = columns.row(change.Object); err != nil {
				return false, err
			}

			shown := slices.Clone(row)
			if age >= 0 {
				shown[age] = ""
			}

			if slices.Equal(last[change.Name], shown) {
				return true, nil
			}

			last[change.Name] = shown
		}

		if out.widths == nil {
			first = append(first, row)
		} else {
			out.print(row)
		}

		return true, nil
	}
}
