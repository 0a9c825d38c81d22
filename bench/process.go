package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// procField returns the number behind a name in a file of /proc.
func procField(file, name string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}

	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			return strconv.ParseInt(fields[1], 10, 64)
		}
	}

	return 0, fmt.Errorf("%s has no %s", file, name)
}

// memoryUse is the resident memory of a process.
type memoryUse struct {
	// Resident is all of it; Mapped is the part that is pages of files, which the kernel takes back when it needs them: those
	// of the store.
	Resident, Mapped int64
}

// resident returns the memory that this process has, after a collection, so that garbage is not counted.
func resident() (m memoryUse, err error) {
	runtime.GC()
	debug.FreeOSMemory()

	if m.Resident, err = procField("/proc/self/status", "VmRSS:"); err != nil {
		return m, err
	}

	m.Mapped, err = procField("/proc/self/status", "RssFile:")
	m.Resident, m.Mapped = m.Resident<<10, m.Mapped<<10

	return m, err
}

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}

	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// cpuTimeOf returns the CPU time that another process has used, in ticks of 10 ms.
func cpuTimeOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}

	// The name of the program, in parentheses, may contain anything.
	_, rest, _ := strings.Cut(string(text), ") ")

	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}

	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}

	system, err := strconv.ParseInt(fields[12], 10, 64)

	return time.Duration(user+system) * 10 * time.Millisecond, err
}
