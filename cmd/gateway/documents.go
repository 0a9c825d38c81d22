package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gateway/config"
)

// source is one file of documents, or standard input.
type source struct {
	name      string
	data      []byte
	documents []config.Document
	// fault says why a file of a directory can't be read; empty where it was.
	fault string
}

// decode is config.Decode, or what checks more.
type decode func(file string, data []byte) ([]config.Document, error)

// readSources reads and decodes what -f names: files, directories, or - for standard input. The faults of all are returned
// together, each with its position; other errors are about reading.
func (a *app) readSources(names []string, decode decode) ([]source, config.Errors, error) {
	if len(names) == 0 {
		return nil, nil, usageError("name documents with -f FILE, -f DIRECTORY or -f - (standard input)")
	}

	var (
		sources []source
		faults  config.Errors
	)

	for _, name := range names {
		read, err := a.read(name)
		if err != nil {
			return nil, nil, err
		}

		sources = append(sources, read...)
	}

	declared := map[string]string{}

	for i := range sources {
		if fault := sources[i].fault; fault != "" {
			faults = append(faults, config.Error{File: sources[i].name, Message: fault})

			continue
		}

		documents, err := decode(sources[i].name, sources[i].data)
		if found, ok := errors.AsType[config.Errors](err); ok {
			faults = append(faults, found...)
		} else if err != nil {
			return nil, nil, err
		}

		sources[i].documents = documents
		faults = append(faults, twice(declared, documents)...)
	}

	// No fault, as a script may have none to declare today; who named the wrong file has to hear it all the same.
	if len(declared) == 0 && len(faults) == 0 {
		fmt.Fprintf(a.err, "gateway: no document is in %s\n", strings.Join(names, ", "))
	}

	return sources, faults, nil
}

// twice returns the faults of objects that another file declares too.
func twice(declared map[string]string, documents []config.Document) (faults config.Errors) {
	for _, d := range documents {
		object := d.Kind.Name + "/" + d.Resource.Metadata().ID()

		if at := declared[object]; at != "" {
			faults = append(faults, config.Error{File: d.File, Line: d.Line, Column: d.Column, Message: object + " is already declared at " + at})

			continue
		}

		declared[object] = fmt.Sprintf("%s:%d", d.File, d.Line)
	}

	return faults
}

// read reads a file, all documents of a directory, or standard input.
func (a *app) read(name string) ([]source, error) {
	if name == "-" {
		data, err := io.ReadAll(io.LimitReader(a.in, config.MaxFileBytes+1))
		if err != nil {
			return nil, fmt.Errorf("error reading standard input: %w", err)
		}

		return []source{{name: "-", data: data}}, nil
	}

	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, bare(err))
	}

	if !info.IsDir() {
		// What is named may be a pipe, as of <(…); whoever names one that nobody writes to waits.
		data, err := readDocuments(name, 0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, bare(err))
		}

		return []source{{name: name, data: data}}, nil
	}

	paths, err := documentFiles(name)
	if err != nil {
		return nil, err
	}

	sources := make([]source, len(paths))

	for i, path := range paths {
		sources[i].name = path

		data, err := readDocuments(path, unix.O_NONBLOCK)
		if err != nil {
			sources[i].fault = bare(err).Error()
		}

		sources[i].data = data
	}

	return sources, nil
}

// readDocuments reads a file, of which no more than one byte above the limit counts. With unix.O_NONBLOCK it can't block, and
// takes only what a documents directory would: a regular file.
func readDocuments(path string, flags int) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|flags, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read from

	if flags&unix.O_NONBLOCK != 0 {
		info, err := file.Stat()
		if err != nil {
			return nil, err
		}

		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("is not a regular file (%s)", info.Mode().Type())
		}
	}

	return io.ReadAll(io.LimitReader(file, config.MaxFileBytes+1))
}

// documentFiles returns the files below a directory that a documents directory would take, sorted.
func documentFiles(dir string) ([]string, error) {
	var paths []string

	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", path, bare(err))
		case entry.IsDir() && path != dir && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case !entry.IsDir() && isDocument(entry.Name()):
			paths = append(paths, path)
		}

		return nil
	})
	if err != nil {
		return nil, err
	}

	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: no .yaml, .yml or .json file is in it", dir)
	}

	return paths, nil
}

// isDocument reports whether a file of this name in a directory is one of documents; hidden ones are editors'.
func isDocument(name string) bool {
	extension := strings.ToLower(filepath.Ext(name))

	return !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, extension)
}

// bare is the error without the path, which is said already.
func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}

	return err
}
