package chain

import "sync"

// maxCauses is how many causes of one reconcile are remembered: enough to explain it, bounded under a storm.
const maxCauses = 8

// Causes remembers, between MapInput and Reconcile, which events led to a reconcile. It is lost at a restart; the cause is
// then "resync".
type Causes struct {
	mu sync.Mutex // guards byID
	// byID holds at most maxCauses distinct causes per primary id; Take empties it.
	byID map[string][]string
}

// Note adds a cause for the reconcile of id.
func (c *Causes) Note(id, cause string) {
	if cause == "" {
		return
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if c.byID == nil {
		c.byID = map[string][]string{}
	}

	known := c.byID[id]
	for _, k := range known {
		if k == cause {
			return
		}
	}

	if len(known) < maxCauses {
		c.byID[id] = append(known, cause)
	}
}

// Take returns and forgets the causes of id, the first first.
func (c *Causes) Take(id string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()

	causes := c.byID[id]
	delete(c.byID, id)

	return causes
}
