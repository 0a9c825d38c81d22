package main

import (
	"strconv"
	"time"
)

// age is how long ago something was, in its largest unit: 5s, 3m, 2h, 4d.
func age(since, now time.Time) string {
	if since.IsZero() {
		return ""
	}

	d := max(now.Sub(since), 0)

	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 24*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}

	return strconv.Itoa(int(d/(24*time.Hour))) + "d"
}

// until is how long it takes until something is: in 5m.
func until(when, now time.Time) string {
	if when.IsZero() {
		return ""
	}

	return "in " + age(now, when)
}

// ago is how long ago something was: 5m ago.
func ago(since, now time.Time) string {
	if since.IsZero() {
		return ""
	}

	return age(since, now) + " ago"
}
