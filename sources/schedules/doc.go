// Package schedules is the source of clock ticks: it reads the declared Schedules and writes one CronTick and one
// ScheduleStatus each. What a tick, a late tick and an overlap are is in timing.go, entry.go and overlap.go, which know no
// runtime and no timer. It imports resources, store and intake; the composition root registers it.
package schedules
