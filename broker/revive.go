package broker

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// streamBroken is in what the server logs of a stream that could not be written. Nothing else tells: the stream then answers
	// every message with that error, however much room there is later, until JetStream is started again.
	streamBroken = "critical write error"
	// room is what must be writable before it is: less than the smallest block of a stream.
	room = 1 << 20
)

// Revive starts JetStream again where the server has switched it off, or a stream has given up, as they do when their disk is
// full: both stay so. What the streams hold is kept. It returns why they can't be written yet, and does nothing where they can.
func (e *Embedded) Revive() error {
	off := e.server.JetStreamConfig() == nil
	if !off && !e.log.broken.Load() {
		return nil
	}

	if err := writable(e.store); err != nil {
		return fmt.Errorf("the embedded NATS server can't write its streams: %w", err)
	}

	if !off {
		if err := e.server.ShutdownJetStream(); err != nil {
			return fmt.Errorf("error stopping JetStream to start it again: %w", err)
		}
	}

	e.log.broken.Store(false)

	if err := e.server.EnableJetStream(&server.JetStreamConfig{
		StoreDir: e.store, MaxStore: embeddedMaxStore, MaxMemory: embeddedMaxMemory,
	}); err != nil {
		return fmt.Errorf("error starting JetStream again: %w", err)
	}

	e.log.log.Info("JetStream was started again: it could not write its streams before")

	return nil
}

// writable returns why a directory can't take a file that is not small.
func writable(dir string) error {
	path := filepath.Join(dir, "room")

	err := os.WriteFile(path, make([]byte, room), 0o600)
	if removeErr := os.Remove(path); err == nil {
		err = removeErr
	}

	return err
}
