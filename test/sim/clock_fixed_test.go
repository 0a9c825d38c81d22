//go:build !clocksteps

package sim

import "time"

// clockSteps reports whether the program's wall clock can be set: see TestSeedsWhereTheClockIsSet.
const clockSteps = false

func setClock(time.Duration) {}
