package contract

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/hypervisor"
)

// consolePatience bounds how long a console may take to say what is waited for: a guest boots in some seconds.
const consolePatience = 90 * time.Second

// reads reads from a console until it has said a text.
func (f *fixture) reads(console hypervisor.Console, text string) {
	f.Helper()

	said := make(chan error, 1)

	go func() {
		var all bytes.Buffer

		buffer := make([]byte, 1024)

		for !bytes.Contains(all.Bytes(), []byte(text)) {
			n, err := console.Read(buffer)
			all.Write(buffer[:n])

			if err != nil {
				said <- err

				return
			}
		}

		said <- nil
	}()

	select {
	case err := <-said:
		require.NoError(f, err, "the console ended before it said %q", text)
	case <-time.After(consolePatience):
		f.Fatalf("the console does not say %q", text)
	}
}

// ends waits for the end of a console.
func (f *fixture) ends(console hypervisor.Console) {
	f.Helper()

	ended := make(chan error, 1)

	go func() {
		_, err := io.Copy(io.Discard, console)
		ended <- err
	}()

	select {
	case err := <-ended:
		require.NoError(f, err)
	case <-time.After(consolePatience):
		f.Fatal("the console does not end")
	}
}

func testConsole(t *testing.T, h *Harness) {
	need(t, h.Capabilities.Console != "", "consoles")

	t.Run("of a domain that is off or not there can't be attached to", func(t *testing.T) {
		f := begin(t, h)
		spec := f.spec()

		_, err := f.driver.Console(f.ctx(), spec.UUID, false)
		require.ErrorIs(t, err, hypervisor.ErrNotFound)

		f.define(spec)

		_, err = f.driver.Console(f.ctx(), spec.UUID, false)
		require.ErrorIs(t, err, hypervisor.ErrOff)
	})

	t.Run("says what the guest prints, hears what is typed, and is one person's", func(t *testing.T) {
		f := begin(t, h)
		spec := f.spec()
		f.define(spec)
		f.start(spec.UUID)

		console, err := f.driver.Console(f.ctx(), spec.UUID, false)
		require.NoError(t, err)
		f.reads(console, h.Capabilities.Console)

		_, err = console.Write([]byte("hello there\n"))
		require.NoError(t, err)
		f.reads(console, "hello there")

		_, err = f.driver.Console(f.ctx(), spec.UUID, false)
		require.ErrorIs(t, err, hypervisor.ErrAttached)

		taken, err := f.driver.Console(f.ctx(), spec.UUID, true)
		require.NoError(t, err)
		f.ends(console)

		_, err = taken.Write([]byte("and again\n"))
		require.NoError(t, err)
		f.reads(taken, "and again")

		require.NoError(t, taken.Close())
		f.ends(taken)

		f.eventually(func() bool {
			console, err = f.driver.Console(f.ctx(), spec.UUID, false)

			return err == nil
		}, "a console that was let go of is free")

		require.NoError(t, f.driver.ForceOff(f.ctx(), spec.UUID))
		f.ends(console)
	})

	t.Run("ends with the connection", func(t *testing.T) {
		f := begin(t, h)
		spec := f.spec()
		f.define(spec)
		f.start(spec.UUID)

		d := h.Open(t)

		console, err := d.Console(f.ctx(), spec.UUID, false)
		require.NoError(t, err)
		require.NoError(t, d.Close())
		f.ends(console)
	})
}
