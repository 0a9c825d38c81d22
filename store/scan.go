package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"gateway/resources"
)

// scannedLog is what the log holds that the store file does not have, read without changing anything.
type scannedLog struct {
	// generations follow the one that the store file has, in their order. The last one ends at the damage, where there is one.
	generations []scannedGeneration
	// damage is nil where the log is whole.
	damage *logDamage
	files  [2]scannedFile
}

// scannedFile is what one file of the log is.
type scannedFile struct {
	name  string
	state string
}

// scannedGeneration is what one file has.
type scannedGeneration struct {
	number, records uint64
	changes         *changes
}

// logDamage is why the log can't be followed to its end.
type logDamage struct {
	file, problem string
	// lost are whole records that stand behind the damage: they were acknowledged, and so was what can't be read.
	lost []op
}

// scanLog reads both files of the log of a data directory, of whose generations the store file has those up to applied.
func scanLog(dir *dataDir, applied uint64) (*scannedLog, error) {
	s := &scannedLog{}

	var (
		logs    [2]*logFile
		missing string
	)

	for i, name := range logNames {
		s.files[i].name = name

		f, err := os.Open(dir.file(name))
		if errors.Is(err, fs.ErrNotExist) {
			s.files[i].state = "missing"
			missing = name

			continue
		}

		if err != nil {
			return nil, fmt.Errorf("error opening the log: %w", err)
		}
		defer f.Close() //nolint:errcheck // it was only read

		logs[i] = &logFile{f: f}
		s.files[i].state = "not in use yet"

		switch err := logs[i].read(); {
		case errors.Is(err, errNoLog):
			logs[i] = nil
		case err != nil:
			return nil, fmt.Errorf("error reading %s: %w", f.Name(), err)
		case logs[i].generation <= applied:
			s.files[i].state = fmt.Sprintf("generation %d, all of it is in %s", logs[i].generation, storeName)
		}
	}

	if err := s.follow(logs, applied); err != nil {
		return nil, err
	}

	// What the other file has comes first: it can be kept.
	if missing != "" {
		s.spoil(missing, "the file is missing, and with it perhaps the newest changes")
	}

	return s, nil
}

// spoil notes the first damage.
func (s *scannedLog) spoil(file, problem string) {
	if s.damage == nil {
		s.damage = &logDamage{file: file, problem: problem}
	}
}

// follow reads the generations after applied as a start of the gateway would.
func (s *scannedLog) follow(logs [2]*logFile, applied uint64) error {
	var before *scannedGeneration

	for next := applied + 1; ; next++ {
		i := 0
		if logs[0] == nil || logs[0].generation != next {
			i = 1
		}

		if logs[i] == nil || logs[i].generation != next {
			if before == nil {
				s.spoil(logNames[0], fmt.Sprintf("neither file of the log has generation %d, which comes after what is in %s", next, storeName))
			}

			return nil
		}

		if before != nil && before.records != logs[i].before {
			s.spoil(logNames[1-i], fmt.Sprintf("it has %d records of generation %d, and %s says that there were %d", before.records, next-1, logNames[i], logs[i].before))
		}

		g, err := s.generation(logs[i], i)
		if err != nil {
			return err
		}

		before = g
	}
}

// generation reads one file. After damage, what it holds is lost: it was written later.
func (s *scannedLog) generation(l *logFile, i int) (*scannedGeneration, error) {
	content, err := os.ReadFile(l.f.Name())
	if err != nil {
		return nil, fmt.Errorf("error reading the log: %w", err)
	}

	g := &scannedGeneration{number: l.generation, changes: newChanges()}
	at := int64(logBlock)
	lost := s.damage != nil

	for at < int64(len(content)) {
		payload, whole := l.record(content[at:], g.records)

		if !whole {
			l.records = g.records

			skipped, found := l.later(content[at:])
			if !found {
				break
			}

			s.spoil(logNames[i], fmt.Sprintf("record %d of generation %d can't be read, from byte %d to %d", g.records+1, g.number, at, at+int64(skipped)))

			at += int64(skipped)
			lost = true
			payload = content[at+recordHeadSize:]
			payload = payload[:l.size(content[at:])]
			g.records = l.number(content[at:])
		}

		s.visit(logNames[i], g, payload, lost)

		at += int64(recordHeadSize + len(payload))
		g.records++
	}

	s.files[i].state = fmt.Sprintf("generation %d, %d records that are not in %s yet", g.number, g.records, storeName)

	if !lost || len(g.changes.values) > 0 {
		s.generations = append(s.generations, *g)
	}

	return g, nil
}

// visit takes the writes of a record, or notes that they are lost.
func (s *scannedLog) visit(file string, g *scannedGeneration, payload []byte, lost bool) {
	var ops []op

	if err := decodeOps(payload, func(o op) { ops = append(ops, o) }); err != nil {
		s.spoil(file, err.Error())
	}

	for i := range ops {
		if lost || s.damage != nil {
			s.damage.lost = append(s.damage.lost, ops[i])
		} else {
			g.changes.add(&ops[i])
		}
	}
}

// maxNamed is how many objects a message names.
const maxNamed = 20

// names says what the writes that are lost were about.
func (d *logDamage) names() string {
	var (
		names   []string
		seen    = map[string]bool{}
		entries int
	)

	for i := range d.lost {
		o := &d.lost[i]
		if string(o.bucket) != string(bucketResources) {
			entries += min(1, int(o.entry))

			continue
		}

		name := writtenName(o.key)
		if o.value == nil {
			name += " (its deletion)"
		}

		if !seen[name] {
			seen[name] = true

			names = append(names, name)
		}
	}

	more := ""
	if len(names) > maxNamed {
		more = fmt.Sprintf(" and %d more", len(names)-maxNamed)
		names = names[:maxNamed]
	}

	text := strings.Join(names, ", ") + more
	if entries > 0 {
		text = strings.TrimPrefix(text+fmt.Sprintf(", %d journal entries", entries), ", ")
	}

	return text
}

// writtenName is what a person calls the object that has a key.
func writtenName(key []byte) string {
	parts := strings.SplitN(string(key), "\x00", 3)
	if len(parts) != 3 {
		return fmt.Sprintf("%.80q", key)
	}

	if kind, ok := resources.KindByType(parts[1]); ok {
		return kind.Name + "/" + parts[2]
	}

	return parts[1] + "/" + parts[2]
}
