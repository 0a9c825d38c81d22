package api

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"

	"gateway/store"
)

// How long the taker of a backup has: while it is read, the store file can't be mapped anew to grow, and changes stay in the log,
// which holds 64 MiB. A local disk takes ten times as much.
const (
	backupPatience = 30 * time.Second
	backupSlowest  = 10 << 20 // bytes a second
)

// backup answers with a copy of the store. It is journaled before, so that the copy has it.
func (o *operations) backup(w http.ResponseWriter, r *http.Request) error {
	backuper, ok := o.Store.(store.Backuper)
	if !ok {
		return usage("the memory engine keeps nothing: there is nothing to back up")
	}

	if !o.backups.TryLock() {
		return usage("another backup is being taken: try again when it is done")
	}
	defer o.backups.Unlock()

	if err := o.Finish(r.Context(), callerOf(r), "store backup", ""); err != nil {
		return err
	}

	begun := false
	deadline := func(t time.Time) {
		if err := http.NewResponseController(w).SetWriteDeadline(t); err != nil {
			o.Logger.Warn("a backup has no deadline", zap.Error(err))
		}
	}

	err := backuper.Backup(r.Context(), w, func(size int64) {
		begun = true

		deadline(time.Now().Add(backupPatience + time.Duration(size/backupSlowest)*time.Second))
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	})
	if err != nil && begun {
		o.Logger.Warn("a backup was cut off", zap.Error(err))
		panic(http.ErrAbortHandler) // the answer has begun: who takes it sees that it does not end
	}

	if err != nil {
		return fmt.Errorf("error taking a backup: %w", err)
	}

	deadline(time.Time{}) // others may use the connection

	return nil
}
