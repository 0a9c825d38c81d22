package sim

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// maxTrace bounds the lines that are kept of one run: the newest.
const maxTrace = 4000

// trace is what was done to the gateway, in compact lines with their virtual time.
type trace struct {
	start time.Time

	mu    sync.Mutex // guards lines
	lines []string
}

func (t *trace) add(format string, args ...any) {
	line := fmt.Sprintf("%9.3fs ", time.Since(t.start).Seconds()) + fmt.Sprintf(format, args...)

	t.mu.Lock()
	defer t.mu.Unlock()

	if len(t.lines) == maxTrace {
		t.lines = append(t.lines[:0], t.lines[maxTrace/2:]...)
	}

	t.lines = append(t.lines, line)
}

func (t *trace) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()

	return strings.Join(t.lines, "\n")
}
