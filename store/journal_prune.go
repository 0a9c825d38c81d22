package store

import "time"

// Bounds of the work that one Append does for others. Each Append takes at least as much away as it adds, and what is only
// too old is looked for once a second: 512 a second are more than any source can have below its limit of entries.
const (
	maxPrunePerAppend = 16
	maxSweep          = 512
	sweepInterval     = time.Second
)

// prune takes away what is above the limits, and what is too old. The deletions go through the same ordered queue as all
// writes. dead are numbers of keys that are gone already. j.mu is held.
func (j *journal) prune(source string, now time.Time, dead []uint64) error {
	var ops []op

	for _, n := range dead {
		ops = append(ops, op{bucket: bucketKeys, key: numberKey(n)})
	}

	log := j.sources[source]
	for range maxPrunePerAppend {
		if log.len() <= j.limits.entries {
			break
		}

		ops = append(ops, j.dropOldest(source, log))
	}

	for range maxPrunePerAppend {
		if j.bytes <= j.limits.bytes {
			break
		}

		ops = append(ops, j.dropOldest(j.largest()))
	}

	if now.Sub(j.swept) >= sweepInterval {
		j.swept = now
		ops = append(ops, j.sweep(now.Add(-j.limits.age).UnixNano())...)
	}

	if j.disk == nil || len(ops) == 0 {
		return nil
	}

	return j.disk.push(ops...)
}

// sweep takes away entries and keys that are older than a moment.
func (j *journal) sweep(before int64) (ops []op) {
	for source, log := range j.sources {
		for log.len() > 0 && log.front().at < before && len(ops) < maxSweep {
			ops = append(ops, j.dropOldest(source, log))
		}
	}

	for _, number := range j.keys.expire(before, maxSweep) {
		ops = append(ops, op{bucket: bucketKeys, key: numberKey(number)})
	}

	return ops
}

// dropOldest forgets the oldest entry of a source.
func (j *journal) dropOldest(source string, log *sourceLog) op {
	oldest := *log.front()
	log.drop(1)
	log.bytes -= oldest.size
	j.bytes -= oldest.size

	if log.len() == 0 {
		delete(j.sources, source)
	}

	j.held.remove(oldest.number)

	return op{bucket: bucketJournal, key: numberKey(oldest.number)}
}

// largest returns the source whose entries use most space.
func (j *journal) largest() (name string, log *sourceLog) {
	for n, l := range j.sources {
		if log == nil || l.bytes > log.bytes {
			name, log = n, l
		}
	}

	return name, log
}
