package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"

	"go.yaml.in/yaml/v4"

	"gateway/resources"
)

// Load reads the process configuration: the defaults, above them the file, above that the GATEWAY_… variables of environ
// (as os.Environ returns them). An empty path means no file. Unknown keys, wrong types and values that don't fit are
// errors of type Errors with file, line and column, or with the name of the variable.
func Load(path string, environ []string) (*Config, error) {
	var text []byte

	if path != "" {
		var err error
		if text, err = readFile(path); err != nil {
			return nil, Errors{{File: path, Message: err.Error()}}
		}
	}

	return load(path, text, environ)
}

// readFile reads the whole file; the errors it returns don't repeat the path.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)

	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("the file does not exist")
	case err == nil && !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case err == nil && info.Size() > MaxFileBytes:
		return nil, fmt.Errorf("%d bytes, at most 4 MiB are allowed", info.Size())
	}

	text, err := os.ReadFile(path)

	var cause *fs.PathError
	if errors.As(err, &cause) {
		return nil, fmt.Errorf("the file can't be read: %w", cause.Err)
	}

	return text, err
}

func load(file string, text []byte, environ []string) (*Config, error) {
	config := Default()
	d := newDecoder(file)
	d.emptyIsAbsent = true

	roots, errs := parse(file, text)
	d.errs = append(d.errs, errs...)
	root := &yaml.Node{Kind: yaml.MappingNode, Line: 1, Column: 1}

	switch {
	case len(roots) > 1:
		d.fail(roots[1], "", "the configuration is one document, not several")
	case len(roots) == 1:
		root = roots[0]
		d.structure(root, reflect.ValueOf(config).Elem(), "")
	}

	fromEnv := d.environment(config, environ)
	d.validated(root, config, fromEnv)

	if err := d.errs.err(); err != nil {
		return nil, err
	}

	config.Policy.NATSPrefix = config.NATS.Prefix

	return config, nil
}

// validated adds the faults that Config.validate finds, at their position in the file or at the variable.
func (d *decoder) validated(root *yaml.Node, config *Config, fromEnv map[string]string) {
	given := func(path string) bool {
		_, inFile := d.marks[path]

		return inFile || fromEnv[path] != ""
	}

	var inFile resources.FieldErrors

	for _, f := range config.validate(given) {
		if variable := fromEnv[f.Path]; variable != "" {
			d.errs = append(d.errs, Error{File: variable, Message: f.Message})

			continue
		}

		inFile = append(inFile, f)
	}

	before := len(d.errs)
	d.fieldErrors(root, inFile)

	if d.file == "" {
		unplaced(d.errs[before:])
	}
}
