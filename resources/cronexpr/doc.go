// Package cronexpr reads cron expressions and says when they are due. It wraps the parser of robfig/cron and corrects what
// that gets wrong: days on which the clocks change, day-of-week 7, expressions that never fire, and texts that make it
// panic. It imports nothing of the gateway; package resources checks schedules with it, sources/schedules runs them.
package cronexpr
