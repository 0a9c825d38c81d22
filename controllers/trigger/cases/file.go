package cases

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gateway/config"
	"gateway/resources"
)

// File is a file of cases.
type File struct {
	// Documents are files or directories with the triggers, relative to the file.
	Documents []string `json:"documents"`
	Cases     []Case   `json:"cases"`
}

// Case is one event and what is expected of it.
type Case struct {
	Name  string `json:"name"`
	Event Event  `json:"event"`
	// Objects are what the event names: each an object as `gateway get -o yaml` writes one, or {recorded: FILE} with such objects
	// as JSON, one or several under items.
	Objects []resources.JSON `json:"objects,omitempty"`
	Expect  Expect           `json:"expect"`

	// line is where it stands, dir the directory of its file.
	line int
	dir  string
}

// Event is what a trigger sees of an event.
type Event struct {
	// Recorded is a file, relative to the file of cases, with one item of `gateway events -o json`. What stands beside it here
	// replaces what was recorded.
	Recorded string            `json:"recorded,omitempty"`
	Source   string            `json:"source,omitempty" enum:"file,schedule,webhook,subscription,domain"`
	Name     string            `json:"name,omitempty"`
	Type     string            `json:"type,omitempty"`
	Subject  string            `json:"subject,omitempty"`
	Time     time.Time         `json:"time,omitzero"`
	Headers  map[string]string `json:"headers,omitempty"`
	// Data is the payload; of file, schedule and domain events their own fields, as path, scheduled, vm, kind.
	Data resources.JSON `json:"data,omitempty"`
}

// Expect is what is to become of the event.
type Expect struct {
	// Fired are the triggers that fire, in any order; none: no trigger does.
	Fired []string `json:"fired,omitempty"`
	// Failed are those whose expressions can't be evaluated.
	Failed []string `json:"failed,omitempty"`
	// Actions are what the triggers ask for, in the order of their names, written like a trigger's do with all ${CEL} replaced.
	// Left out, they are not looked at. A publish without data is right with any.
	Actions []resources.TriggerAction `json:"actions,omitempty"`
}

// Load reads a file of cases and the triggers of its documents. Faults in either are of type config.Errors.
func Load(path string) (File, []*resources.Trigger, error) {
	var file File

	data, err := os.ReadFile(path)
	if err != nil {
		return file, nil, fmt.Errorf("%s: %w", path, bare(err))
	}

	places, err := config.DecodeValue(path, data, &file)
	if err != nil {
		return file, nil, err
	}

	var faults config.Errors

	for i := range file.Cases {
		c := &file.Cases[i]
		c.line, c.dir = places[fmt.Sprintf("cases[%d]", i)], filepath.Dir(path)

		if c.Name == "" {
			c.Name = fmt.Sprintf("case %d", i+1)
		}

		if c.Event.Source == "" && c.Event.Recorded == "" {
			faults = append(faults, config.Error{File: path, Line: c.line, Column: 1, Message: fmt.Sprintf("cases[%d].event: source or recorded is needed", i)})
		}

		if c.Event.Recorded != "" {
			if err := c.Event.record(filepath.Join(filepath.Dir(path), c.Event.Recorded)); err != nil {
				return file, nil, err
			}
		}
	}

	if len(faults) > 0 {
		return file, nil, faults
	}

	triggers, err := file.triggers(filepath.Dir(path))

	return file, triggers, err
}

// triggers reads the triggers of the documents, sorted by name. Other objects there are passed over.
func (f *File) triggers(dir string) ([]*resources.Trigger, error) {
	var (
		triggers []*resources.Trigger
		faults   config.Errors
	)

	for _, name := range f.Documents {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}

		paths, err := documents(name)
		if err != nil {
			return nil, err
		}

		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, bare(err))
			}

			decoded, err := config.Decode(path, data)
			if found, ok := errors.AsType[config.Errors](err); ok {
				faults = append(faults, found...)
			} else if err != nil {
				return nil, err
			}

			for _, d := range decoded {
				if trigger, ok := d.Resource.(*resources.Trigger); ok {
					triggers = append(triggers, trigger)
				}
			}
		}
	}

	if len(faults) > 0 {
		return nil, faults
	}

	slices.SortFunc(triggers, func(a, b *resources.Trigger) int { return strings.Compare(a.Metadata().ID(), b.Metadata().ID()) })

	return triggers, nil
}

// documents returns a file, or the files of documents in a directory.
func documents(name string) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, bare(err))
	}

	if !info.IsDir() {
		return []string{name}, nil
	}

	var paths []string

	for _, pattern := range []string{"*.yaml", "*.yml", "*.json"} {
		found, err := filepath.Glob(filepath.Join(name, pattern))
		if err != nil {
			return nil, fmt.Errorf("error listing %s: %w", name, err)
		}

		paths = append(paths, found...)
	}

	return paths, nil
}

// bare is the error without the path, which is said already.
func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}

	return err
}
