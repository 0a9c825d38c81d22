package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"gateway/api/client"
	"gateway/resources"
)

// generic returns the columns of a kind that has none of its own: those of its COSI definition.
func generic(kind *resources.Kind) columns {
	definition := kind.Definition()
	header := []string{"NAME"}

	for _, column := range definition.PrintColumns {
		header = append(header, strings.ToUpper(column.Name))
	}

	return columns{header: append(header, "AGE"), values: func(o *client.Object, now time.Time) ([]string, error) {
		half := o.Spec
		if len(half) == 0 {
			half = o.Status
		}

		row := []string{o.Metadata.Name}

		for _, column := range definition.PrintColumns {
			value, err := at(half, column.JSONPath)
			if err != nil {
				return nil, fmt.Errorf("error reading %s/%s: %w", o.Kind, o.Metadata.Name, err)
			}

			row = append(row, value)
		}

		return append(row, age(o.Metadata.Created, now)), nil
	}}
}

// at returns the value at a path like {.on.source}, which is all that definitions use of JSONPath; empty where there is none.
func at(object json.RawMessage, path string) (string, error) {
	for field := range strings.SplitSeq(strings.Trim(path, "{.}"), ".") {
		if len(object) == 0 {
			return "", nil
		}

		var fields map[string]json.RawMessage
		if err := json.Unmarshal(object, &fields); err != nil {
			return "", err
		}

		object = fields[field]
	}

	var text string
	if json.Unmarshal(object, &text) == nil {
		return text, nil
	}

	return string(object), nil
}
