package config

import (
	"fmt"
	"reflect"

	"gateway/resources"
)

// Places are the lines in which values stand, by their path: cases[0].event.
type Places map[string]int

// DecodeValue reads a file that holds one value into a struct, a pointer to it with `json` tags, as strictly as a document is
// read. The error is of type Errors. file is only what messages name.
func DecodeValue(file string, data []byte, into any) (Places, error) {
	roots, errs := parse(file, data)
	d := newDecoder(file)
	d.errs = errs

	switch {
	case len(errs) > 0:
	case len(roots) != 1:
		d.errs = append(d.errs, Error{File: file, Line: 1, Column: 1, Message: fmt.Sprintf("one document is needed, not %d", len(roots))})
	default:
		resources.SetDefaults(into)
		d.structure(roots[0], reflect.ValueOf(into).Elem(), "")
	}

	if err := d.errs.err(); err != nil {
		return nil, err
	}

	places := make(Places, len(d.marks))
	for path, at := range d.marks {
		places[path] = at.line
	}

	return places, nil
}
