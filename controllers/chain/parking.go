package chain

import (
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
)

// parking knows, of each controller, what is in its queue only to be looked at again at a time to come. It is no work that waits.
type parking struct {
	mu sync.Mutex // guards lots
	// lots have the times, by controller and object. An object leaves when it is looked at, so there are no more than in the queues.
	lots map[string]map[parked]time.Time
}

// parked names an object in the queue of a controller.
type parked struct {
	typ resource.Type
	id  resource.ID
}

// clear forgets what a controller parked: it is built anew, with an empty queue.
func (p *parking) clear(controller string) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.lots == nil {
		p.lots = map[string]map[parked]time.Time{}
	}

	p.lots[controller] = map[parked]time.Time{}
}

func (p *parking) park(controller string, object parked, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.lots[controller][object] = until
}

func (p *parking) leave(controller string, object parked) {
	p.mu.Lock()
	defer p.mu.Unlock()

	delete(p.lots[controller], object)
}

// count returns how many objects of a controller wait for a time to come.
func (p *parking) count(controller string, now time.Time) (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()

	for _, until := range p.lots[controller] {
		if until.After(now) {
			n++
		}
	}

	return n
}
