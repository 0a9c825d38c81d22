package files

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"gateway/resources"
)

const (
	// MaxFiles bounds the entries of one root: a FileEvent and a FileStatus take about 4 KB, so 400 MB.
	MaxFiles = 100_000
	// verifyBytes is how much content one verifying scan reads at most; the next goes on where it stopped. 64 MiB are
	// 16,000 documents of 4 KB, and a quarter of a second of hashing.
	verifyBytes = 64 << 20
)

// Snapshot is what is below a root.
type Snapshot struct {
	// Available reports whether the root could be read and is the one that was there before. Without it nothing is known.
	Available bool
	Reason    string
	Message   string
	// Files are all entries that may hold documents, by path, also those that can't be read.
	Files map[string]Look
	// Unreadable are directories whose entries are not known, with the reason.
	Unreadable map[string]string
}

// hides reports whether the path may be there although the snapshot does not have it.
func (s *Snapshot) hides(path string) bool {
	for dir := range s.Unreadable {
		if isUnder(path, dir) {
			return true
		}
	}

	return false
}

// Scanner looks at the files below one root. It remembers what it saw, to read again only what may have changed. It is not
// safe for concurrent use.
type Scanner struct {
	root string
	// exclude are directories that are roots of their own.
	exclude []string
	// watch, if set, is called before a directory is read, so that what changes after the reading is noticed.
	watch func(dir string, id identity)

	dirs map[string]*directory
	// device of the root when it last had files.
	device uint64
	// passes counts the verifying scans.
	passes int
}

// NewScanner returns a scanner of the root, an absolute path. Directories of exclude are left out.
func NewScanner(root string, exclude ...string) *Scanner {
	return &Scanner{root: root, exclude: slices.DeleteFunc(slices.Clone(exclude), func(dir string) bool { return isUnder(root, dir) })}
}

// Scan walks through the whole root. With verify it reads the content also of files that look unchanged.
func (s *Scanner) Scan(verify bool) Snapshot {
	id, problem := s.open()
	if problem != nil {
		s.dirs = nil

		return *problem
	}

	w := &walk{scanner: s, dirs: map[string]*directory{}, seen: map[identity]string{}}
	if verify {
		w.verify = s.toVerify()
	}

	w.run(id)

	if w.files > MaxFiles {
		return Snapshot{Reason: resources.ReasonInvalid, Message: fmt.Sprintf("more than %d files", MaxFiles)}
	}

	if d := w.dirs[s.root]; d == nil || d.err != "" {
		message := "can't be read"
		if d != nil {
			message = d.err
		}

		return Snapshot{Reason: resources.ReasonUnreadable, Message: message}
	}

	s.dirs = w.dirs
	snapshot := s.snapshot()

	if len(snapshot.Files) > 0 {
		s.device = id.device
	} else if s.device != 0 && s.device != id.device {
		return Snapshot{Reason: resources.ReasonUnreadable, Message: notMounted}
	}

	return snapshot
}

// Look looks again at the given directories, and only there where their subdirectories are those that are known.
func (s *Scanner) Look(dirs []string) Snapshot {
	if _, problem := s.open(); problem != nil || s.dirs == nil {
		return s.Scan(false)
	}

	for _, path := range dirs {
		known := s.dirs[path]
		if known == nil {
			return s.Scan(false)
		}

		w := &walk{scanner: s, seen: map[identity]string{}}

		if id, isDir, err := identify(path); err != nil || !isDir || id != known.id {
			return s.Scan(false)
		}

		read := w.list(path)
		if read.err != known.err || !slices.Equal(read.subs, known.subs) {
			return s.Scan(false)
		}

		s.dirs[path] = &directory{subs: known.subs, err: read.err, files: read.files, id: known.id}
		maps.Copy(s.dirs[path].files, known.links())
	}

	if snapshot := s.snapshot(); len(snapshot.Files) > 0 {
		return snapshot
	}

	return s.Scan(false) // an empty root is looked at closely
}

// toVerify chooses the files whose content the next scan reads again: those whose turn is longest ago, within the budget.
func (s *Scanner) toVerify() map[string]bool {
	s.passes++

	var files []Look

	for _, d := range s.dirs {
		files = slices.AppendSeq(files, maps.Values(d.files))
	}

	slices.SortFunc(files, func(a, b Look) int {
		return cmp.Or(cmp.Compare(a.verified, b.verified), cmp.Compare(a.Path, b.Path))
	})

	chosen, budget := map[string]bool{}, int64(verifyBytes)

	for _, look := range files {
		if budget -= look.Bytes; budget < 0 {
			break
		}

		chosen[look.Path] = true
	}

	return chosen
}

// has reports whether the directory was read in the last scan.
func (s *Scanner) has(dir string) bool { return s.dirs[dir] != nil }

// open looks at the root itself.
func (s *Scanner) open() (identity, *Snapshot) {
	id, isDir, err := identify(s.root)

	switch {
	case err != nil && isNotExist(err):
		return id, &Snapshot{Reason: resources.ReasonWaiting, Message: "the directory does not exist"}
	case err != nil:
		return id, &Snapshot{Reason: resources.ReasonUnreadable, Message: reason(err)}
	case !isDir:
		return id, &Snapshot{Reason: resources.ReasonUnreadable, Message: "is not a directory"}
	}

	return id, nil
}

// snapshot puts together what is known of all directories.
func (s *Scanner) snapshot() Snapshot {
	snapshot := Snapshot{Available: true, Files: map[string]Look{}, Unreadable: map[string]string{}}

	for path, d := range s.dirs {
		if d.err != "" {
			snapshot.Unreadable[path] = d.err
		}

		maps.Copy(snapshot.Files, d.files)
	}

	return snapshot
}

// before returns the look at a path that the last scan took.
func (s *Scanner) before(path string) *Look {
	if d := s.dirs[filepath.Dir(path)]; d != nil {
		if look, ok := d.files[path]; ok {
			return &look
		}
	}

	return nil
}
