package webhooks

import (
	"hash/maphash"
	"sync"
)

// stripes is the number of locks that all delivery ids share.
const stripes = 256

// keyLocks serialises what is done for one delivery id.
type keyLocks struct {
	once  sync.Once
	seed  maphash.Seed
	locks [stripes]sync.Mutex
}

// lock returns the function that unlocks.
func (k *keyLocks) lock(id string) func() {
	k.once.Do(func() { k.seed = maphash.MakeSeed() })
	l := &k.locks[maphash.String(k.seed, id)%stripes]
	l.Lock()

	return l.Unlock
}
