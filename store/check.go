package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Report is what an examination of a data directory or of a backup found.
type Report struct {
	Path string
	// ID of the gateway; empty where none can be read.
	ID string
	// Parts are what is there, in the order in which it was looked at.
	Parts []Part
	// Problems are empty where the gateway can start, and has all that it acknowledged.
	Problems []Problem
}

// Part is one file, and what it is.
type Part struct{ Name, State string }

// Problem is something that is wrong.
type Problem struct {
	// Part is the file that it is about.
	Part string
	Text string
	// Remedy is what to do.
	Remedy string
}

func (p Problem) String() string { return p.Part + ": " + p.Text + ": " + p.Remedy }

// What to do.
const (
	remedyRestore = "restore a backup with `gateway store restore --force FILE`"
	remedyNewer   = "start the newer gateway that wrote it"
	remedyLog     = "`gateway store restore --force FILE` brings a backup back; where there is none, `gateway store check --repair` gives up " +
		"what stands behind the damage, and keeps what stands before it"
)

func (r *Report) part(name, format string, args ...any) {
	r.Parts = append(r.Parts, Part{name, fmt.Sprintf(format, args...)})
}

func (r *Report) problem(part, remedy, format string, args ...any) {
	r.Problems = append(r.Problems, Problem{part, fmt.Sprintf(format, args...), remedy})
}

// Check examines a data directory that no gateway works on: id, store file with every object and journal entry in it, and the
// log record by record. It changes nothing. The error is why it can't be looked at, ErrInUse among them; what is found is in
// the report.
func Check(path string) (_ *Report, err error) {
	dir, err := openExisting(path)
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, dir.close()) }()

	r := &Report{Path: dir.path}
	if err := r.directory(dir); err != nil {
		return nil, err
	}

	there, err := dir.has(storeName)
	if err != nil {
		return nil, err
	}

	if !there {
		return r, r.storeMissing(dir)
	}

	f, err := r.file(dir.file(storeName), storeName)
	if err != nil {
		return nil, err
	}

	if f == nil {
		return r, nil
	}

	if r.ID != "" && f.id != r.ID {
		r.problem(storeName, "restore the store that belongs to this directory, or remove "+dir.file(idName)+" to go on as "+f.id,
			"it belongs to gateway %q, but the file %s says %q", f.id, idName, r.ID)
	}

	r.ID = f.id
	if f.logged { // the first version had none
		return r, r.log(dir, f.applied)
	}

	return r, nil
}

// directory looks at the directory itself and at the file that has the id.
func (r *Report) directory(dir *dataDir) error {
	info, err := os.Stat(dir.path)
	if err != nil {
		return fmt.Errorf("error reading the data directory: %w", err)
	}

	r.part("directory", "%s, mode %04o, not in use", dir.path, info.Mode().Perm())

	if info.Mode().Perm()&0o077 != 0 {
		r.problem(dir.path, "`chmod 700 "+dir.path+"`", "other users may look into it")
	}

	id, err := dir.storedID()

	switch {
	case err != nil:
		r.problem(idName, "remove it: the store has the id, too", "%s", err)
	case id == "":
		r.part(idName, "missing; a start writes it again from the store")
	default:
		r.ID = id
		r.part(idName, "%s", id)
	}

	return nil
}

// storeMissing says what there is where the store should be.
func (r *Report) storeMissing(dir *dataDir) error {
	left := r.ID != ""

	for _, name := range logNames {
		there, err := dir.has(name)
		if err != nil {
			return err
		}

		left = left || there
	}

	if !left {
		r.problem(storeName, "name the gateway's data directory with --data-dir or --config", "no gateway has kept anything in %s", dir.path)
	} else {
		r.problem(storeName, "restore a backup with `gateway store restore FILE`; without one, remove "+dir.file(idName)+
			" to begin anew, and import the domains that exist", "the store is missing")
	}

	return nil
}

// log looks at the log, record by record.
func (r *Report) log(dir *dataDir, applied uint64) error {
	s, err := scanLog(dir, applied)
	if err != nil {
		return err
	}

	for _, f := range s.files {
		r.part(f.name, "%s", f.state)
	}

	if s.damage != nil {
		text := s.damage.problem
		if names := s.damage.names(); names != "" {
			text += "; acknowledged and lost behind it: " + names
		}

		r.problem(s.damage.file, remedyLog, "%s", text)

		return nil
	}

	for i := range s.generations {
		err := s.generations[i].changes.each(func(o *op) error {
			if err := examine(o); err != nil {
				r.problem(logNames[0], remedyLog, "a record has %s", err)
			}

			return nil
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// CheckBackup examines a file that Backup wrote.
func CheckBackup(path string) (*Report, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("error finding the backup: %w", err)
	}

	r := &Report{Path: path}

	seal, err := readSeal(path)
	if err != nil {
		r.problem(path, "take another one", "%s", err)

		return r, nil
	}

	r.part("backup", "of %s, whole", seal.taken.Local().Format("2006-01-02 15:04:05"))

	f, err := r.file(path, storeName)
	if err != nil {
		return nil, err
	}

	if f != nil {
		r.ID = f.id
		r.part(idName, "%s", f.id)
	}

	return r, nil
}
