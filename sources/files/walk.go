package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// identity tells directories apart, whatever path leads to them.
type identity struct{ device, inode uint64 }

// identify follows symbolic links.
func identify(path string) (id identity, isDir bool, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return identity{}, false, err
	}

	s := stampOf(info)

	return identity{s.device, s.inode}, info.IsDir(), nil
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// directory is what was found in one directory.
type directory struct {
	// files may hold documents, by path.
	files map[string]Look
	// subs are the subdirectories, those that are symbolic links marked with a slash at the end, in order.
	subs []string
	// err says why the directory could not be read.
	err string
	// id is the directory's own; the device stays that on which files were last seen.
	id identity
}

// links are the entries that stand for symbolic links to directories that are read elsewhere: what a walk adds, not a list.
func (d *directory) links() map[string]Look {
	links := map[string]Look{}

	for path, look := range d.files {
		if slices.Contains(d.subs, path+"/") {
			links[path] = look
		}
	}

	return links
}

// walk is one pass through a root.
type walk struct {
	scanner *Scanner
	dirs    map[string]*directory
	// seen are the directories that were read, so that loops of symbolic links end and nothing is read twice.
	seen  map[identity]string
	files int

	// verify are the files whose content is read although they look unchanged.
	verify map[string]bool
}

// run reads the root and everything below it. Symbolic links come last, so that a directory is known by its own path.
func (w *walk) run(root identity) {
	w.seen[root] = w.scanner.root
	real, links := w.visit(w.scanner.root, root), []string(nil)

	for len(real)+len(links) > 0 && w.files <= MaxFiles {
		var next string

		if len(real) > 0 {
			next, real = real[0], real[1:]
		} else {
			next, links = links[0], links[1:]
		}

		if linked, ok := strings.CutSuffix(next, "/"); ok && len(real) > 0 {
			links = append(links, next)
		} else {
			real = append(real, w.descend(linked)...)
		}
	}
}

// descend reads a subdirectory, unless it was read already or is a root of its own.
func (w *walk) descend(path string) (subs []string) {
	id, isDir, err := identify(path)

	switch {
	case err == nil && !isDir || isNotExist(err) && !isLink(path): // changed since it was listed: the next look sees it
		return nil
	case err != nil:
		w.dirs[path] = &directory{err: reason(err)}

		return nil
	case slices.Contains(w.scanner.exclude, path):
		return nil
	}

	if elsewhere, ok := w.seen[id]; ok {
		if parent := w.dirs[filepath.Dir(path)]; parent != nil {
			parent.files[path] = Look{Path: path, Err: "leads to " + elsewhere + ", which is read already"}
		}

		return nil
	}

	w.seen[id] = path

	return w.visit(path, id)
}

// visit watches and reads one directory and returns its subdirectories.
func (w *walk) visit(path string, id identity) []string {
	if w.scanner.watch != nil {
		w.scanner.watch(path, id)
	}

	d := w.list(path)
	d.id = id
	w.dirs[path] = d
	w.files += len(d.files)

	// Something was mounted here, and is not any more: what it had is not gone.
	before := w.scanner.dirs[path]
	if before != nil && before.id.device != 0 && before.id.device != id.device && len(d.files)+len(d.subs) == 0 && d.err == "" {
		d.err, d.id.device = notMounted, before.id.device
	}

	return d.subs
}

const notMounted = "another file system is there, and it is empty: the one with the documents is not mounted"

// isLink reports whether the path is a symbolic link, wherever it leads.
func isLink(path string) bool {
	info, err := os.Lstat(path)

	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// generation is where a mounted ConfigMap or Secret of Kubernetes points: all its files are links through this one, and change
// with it at once.
func generation(dir string) string {
	target, err := os.Readlink(filepath.Join(dir, "..data"))
	if err != nil {
		return ""
	}

	return target
}

// generations bounds how often a directory is read again because its generation changed while it was read. A look that is
// torn in spite of that is corrected by the next.
const generations = 3

// list reads one directory.
func (w *walk) list(path string) (d *directory) {
	for range generations {
		current := generation(path)

		d = w.read(path, current != "")
		if current == generation(path) {
			break
		}
	}

	return d
}

func (w *walk) read(path string, grouped bool) *directory {
	d := &directory{files: map[string]Look{}}

	entries, err := os.ReadDir(path)
	if err != nil {
		d.err = reason(err)

		return d
	}

	for _, entry := range entries {
		name := entry.Name()
		if isIgnored(name) {
			continue
		}

		at := filepath.Join(path, name)

		if sub := subdirectory(at, entry); sub != "" && !isDocument(name) {
			d.subs = append(d.subs, sub)

			continue
		}

		if !isDocument(name) {
			continue
		}

		if look, ok := w.look(at); ok {
			if grouped {
				look.Group = path
			}

			d.files[at] = look
		}
	}

	return d
}

// subdirectory returns the path when the entry is a directory, with a slash when it is a symbolic link to one, else "". A link
// that leads nowhere at the moment may have been one: what was below it is not known.
func subdirectory(path string, entry fs.DirEntry) string {
	if entry.IsDir() {
		return path
	}

	if entry.Type()&fs.ModeSymlink != 0 {
		if _, isDir, err := identify(path); err != nil || isDir {
			return path + "/"
		}
	}

	return ""
}

func (w *walk) look(path string) (Look, bool) {
	before, verify := w.scanner.before(path), w.verify[path]

	look, ok := lookAt(path, before, verify)

	switch {
	case verify || before == nil:
		look.verified = w.scanner.passes
	default:
		look.verified = before.verified
	}

	return look, ok
}
