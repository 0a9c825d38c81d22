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

	"gateway/config"
)

// maxDocumentFile is the contract's limit of a file, and so of standard input.
const maxDocumentFile = 4 << 20

// source is one file of documents, or standard input.
type source struct {
	name      string
	data      []byte
	documents []config.Document
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
		documents, err := decode(sources[i].name, sources[i].data)
		if found, ok := errors.AsType[config.Errors](err); ok {
			faults = append(faults, found...)
		} else if err != nil {
			return nil, nil, err
		}

		sources[i].documents = documents
		faults = append(faults, twice(declared, documents)...)
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
		data, err := io.ReadAll(io.LimitReader(a.in, maxDocumentFile+1))
		if err != nil {
			return nil, fmt.Errorf("error reading standard input: %w", err)
		}

		return []source{{name: "-", data: data}}, nil
	}

	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, bare(err))
	}

	paths := []string{name}
	if info.IsDir() {
		if paths, err = documentFiles(name); err != nil {
			return nil, err
		}
	}

	sources := make([]source, 0, len(paths))

	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, bare(err))
		}

		sources = append(sources, source{name: path, data: data})
	}

	return sources, nil
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
