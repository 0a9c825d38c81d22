package store

import "crypto/sha256"

// keyHash stands for a key: keys may be as long as a sender likes, and 128 bits of SHA-256 are not the same by chance.
type keyHash [16]byte

func hashKey(key string) keyHash {
	sum := sha256.Sum256([]byte(key))

	return keyHash(sum[:16])
}

// seenKey is a delivery that was taken in.
type seenKey struct {
	number uint64
	at     int64 // Unix nanoseconds
	id     string
}

type keyInOrder struct {
	hash   keyHash
	number uint64
	at     int64
}

// keyGroup are the keys of one source and name.
type keyGroup struct {
	byHash map[keyHash]seenKey
	order  fifo[keyInOrder]
}

// keyIndex finds deliveries by their keys. The journal's mutex guards it.
type keyIndex struct {
	limits journalLimits
	groups map[string]*keyGroup
	total  int
}

func newKeyIndex(limits journalLimits) *keyIndex {
	return &keyIndex{limits: limits, groups: map[string]*keyGroup{}}
}

// groupName joins source and name. Sources are the gateway's own words, so that no two pairs are joined to the same.
func groupName(source, name string) string { return source + "\x00" + name }

func (x *keyIndex) find(source, name, key string) (seenKey, bool) {
	g := x.groups[groupName(source, name)]
	if g == nil {
		return seenKey{}, false
	}

	k, ok := g.byHash[hashKey(key)]

	return k, ok
}

// add notes a delivery and returns the numbers of those that it pushed out.
func (x *keyIndex) add(source, name, key string, k seenKey) (old []uint64) {
	return x.insert(groupName(source, name), hashKey(key), k)
}

func (x *keyIndex) insert(group string, hash keyHash, k seenKey) (old []uint64) {
	g := x.groups[group]
	if g == nil {
		g = &keyGroup{byHash: map[keyHash]seenKey{}}
		x.groups[group] = g
	}

	if before, ok := g.byHash[hash]; ok {
		old = append(old, before.number)
	} else {
		x.total++
	}

	g.byHash[hash] = k
	g.order.push(keyInOrder{hash: hash, number: k.number, at: k.at})

	// A key that is forgotten and taken in again and again leaves a place in the order each time.
	for len(g.byHash) > x.limits.keys || g.order.len() > 2*x.limits.keys {
		old = x.dropOldest(group, g, old)
	}

	for x.total > x.limits.totalKeys {
		name, largest := x.largest()
		old = x.dropOldest(name, largest, old)
	}

	return old
}

// dropOldest takes the front of a group off. One whose key was taken in again, or forgotten, is only passed over.
func (x *keyIndex) dropOldest(name string, g *keyGroup, old []uint64) []uint64 {
	first := *g.order.front()
	g.order.drop(1)

	if k, ok := g.byHash[first.hash]; ok && k.number == first.number {
		delete(g.byHash, first.hash)

		x.total--

		old = append(old, first.number)
	}

	if g.order.len() == 0 {
		delete(x.groups, name)
	}

	return old
}

// remove forgets a key and returns the number of its entry.
func (x *keyIndex) remove(source, name, key string) (number uint64, ok bool) {
	g := x.groups[groupName(source, name)]
	if g == nil {
		return 0, false
	}

	hash := hashKey(key)

	k, ok := g.byHash[hash]
	if ok {
		delete(g.byHash, hash)

		x.total--
	}

	return k.number, ok
}

// expire forgets at most limit keys that are older than a moment, and returns their numbers.
func (x *keyIndex) expire(before int64, limit int) (old []uint64) {
	for name, g := range x.groups {
		for g.order.len() > 0 && g.order.front().at < before && len(old) < limit {
			old = x.dropOldest(name, g, old)
		}
	}

	return old
}

func (x *keyIndex) largest() (name string, group *keyGroup) {
	for n, g := range x.groups {
		if group == nil || len(g.byHash) > len(group.byHash) {
			name, group = n, g
		}
	}

	return name, group
}
