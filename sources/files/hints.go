package files

import (
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// maxHints bounds what is remembered between two looks; above it everything is looked at.
const maxHints = 10_000

// hints collects what inotify says until the source looks. A goroutine of its own reads the events, so that the kernel's queue
// (16,384 events) does not fill up during a look.
type hints struct {
	watcher *fsnotify.Watcher
	logger  *zap.Logger
	// wake says that there are hints.
	wake chan struct{}
	done chan struct{}

	mu sync.Mutex // guards the following
	// at is when something last happened to a path; overflow that the paths are incomplete.
	at       map[string]time.Time
	moved    map[string]bool
	overflow bool

	// watched are the directories under watch by path. Only the source's goroutine uses it.
	watched map[string]identity
	// refused is why a directory could not be watched; nil while all are.
	refused error
}

// newHints starts to collect. An error says that there is no inotify: the source polls.
func newHints(logger *zap.Logger) (*hints, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}

	h := &hints{
		watcher: watcher, logger: logger, wake: make(chan struct{}, 1), done: make(chan struct{}),
		at: map[string]time.Time{}, moved: map[string]bool{}, watched: map[string]identity{},
	}

	go h.collect()

	return h, nil
}

func (h *hints) close() {
	if err := h.watcher.Close(); err != nil {
		h.logger.Warn("error closing the file watcher", zap.Error(err))
	}

	<-h.done
}

// collect runs until the watcher is closed.
func (h *hints) collect() {
	defer close(h.done)

	for {
		select {
		case event, ok := <-h.watcher.Events:
			if !ok {
				return
			}

			h.note(event)
		case err, ok := <-h.watcher.Errors:
			if !ok {
				return
			}

			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				h.logger.Warn("error watching files: looking at all", zap.Error(err))
			}

			h.mu.Lock()
			h.overflow = true
			h.mu.Unlock()
		}

		select {
		case h.wake <- struct{}{}:
		default:
		}
	}
}

func (h *hints) note(event fsnotify.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()

	if len(h.at) >= maxHints {
		h.overflow = true

		return
	}

	h.at[event.Name] = time.Now()

	if event.Has(fsnotify.Create) || event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename) {
		h.moved[event.Name] = true
	}
}

// hint is what happened since the last look.
type hint struct {
	// at is when something last happened to a path; moved are those that came or went.
	at    map[string]time.Time
	moved map[string]bool
	// all says that more happened than is told.
	all bool
}

// take returns what was collected and forgets it.
func (h *hints) take() hint {
	h.mu.Lock()
	defer h.mu.Unlock()

	taken := hint{at: h.at, moved: h.moved, all: h.overflow}
	h.at, h.moved, h.overflow = map[string]time.Time{}, map[string]bool{}, false

	return taken
}

// watch puts a directory under watch, anew when another one is at its path now.
func (h *hints) watch(dir string, id identity) {
	if h.watched[dir] == id {
		return
	}

	if _, ok := h.watched[dir]; ok {
		// The kernel may have taken the watch away with the old directory already.
		if err := h.watcher.Remove(dir); err != nil && !errors.Is(err, fsnotify.ErrNonExistentWatch) {
			h.logger.Debug("error removing a watch", zap.String("directory", dir), zap.Error(err))
		}
	}

	if err := h.watcher.Add(dir); err != nil {
		delete(h.watched, dir)

		// One that is gone or can't be read has nothing to watch: when that changes, its parent says so.
		if !isNotExist(err) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, fsnotify.ErrClosed) {
			h.refused = err
		}

		return
	}

	h.watched[dir] = id
}

// forget drops a directory and what is below it, so that they are watched anew when they are there again.
func (h *hints) forget(path string) {
	for dir := range h.watched {
		if isUnder(dir, path) {
			delete(h.watched, dir)
		}
	}
}
