//go:build clocksteps

package sim

import "time"

const clockSteps = true

// setClock sets the wall clock to so much more than the time that passes. Only one seed plays at a time.
func setClock(ahead time.Duration) { time.Step.Store(int64(ahead / time.Second)) }
