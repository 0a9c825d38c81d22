package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"gateway/api/client"
	"gateway/resources"
)

// leaveKey is Ctrl-].
const leaveKey = 0x1d

func (a *app) consoleCommand() *cobra.Command {
	var force bool

	cmd := &cobra.Command{
		Use:   "console VM [--force]",
		Short: "Attach to the serial console of a VM",
		Long: "On a terminal everything that is typed goes to the guest; Ctrl-] leaves. Otherwise standard input is sent to the guest, and what\n" +
			"it prints goes to standard output until the VM goes off, the reader goes away, or a signal comes.",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeVM,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()

			c, err := a.client(ctx)
			if err != nil {
				return err
			}

			console, err := c.Console(ctx, args[0], force)
			if err != nil {
				return fmt.Errorf("console: %w", err)
			}
			defer console.Close() //nolint:errcheck // there is nothing left to do with it

			left, err := a.attach(ctx, args[0], console)
			if err != nil || left {
				return err
			}

			return a.consoleEnded(ctx, c, args[0])
		},
	}

	cmd.Flags().BoolVar(&force, "force", false, "take the console over from who is attached to it")

	return cmd
}

// attach connects standard input and output with a console until one side ends. left reports that it was this one.
func (a *app) attach(ctx context.Context, vm string, console io.ReadWriteCloser) (left bool, err error) {
	terminal := isTerminal(a.in)

	if terminal {
		file, _ := a.in.(*os.File)

		before, err := term.MakeRaw(int(file.Fd()))
		if err != nil {
			return false, fmt.Errorf("console: error preparing the terminal: %w", err)
		}

		defer func() {
			// It fails where the terminal is gone.
			_ = term.Restore(int(file.Fd()), before)
			fmt.Fprintln(a.err)
		}()

		fmt.Fprintf(a.err, "attached to the console of VM/%s: leave with Ctrl-]\r\n", vm)
	}

	leaves := make(chan struct{})
	leave := sync.OnceFunc(func() { close(leaves) })
	ended := make(chan error, 1)

	go func() {
		if typed(console, a.in, terminal) {
			leave()
		}
	}()

	go func() {
		_, err := io.Copy(writer{a.out}, console)
		ended <- err
	}()

	select {
	case <-leaves:
		return true, nil
	case <-ctx.Done():
		return true, nil
	case err := <-ended:
		return isOutput(err), nil
	}
}

// typed sends what comes in to the guest, and reports whether who typed it wants to leave: with the key for it, on a terminal.
// Where the input just ends, the output goes on.
func typed(console io.Writer, in io.Reader, terminal bool) bool {
	buffer := make([]byte, 4096)

	for {
		n, err := in.Read(buffer)
		text := buffer[:n]

		at := -1
		if terminal {
			at = bytes.IndexByte(text, leaveKey)
		}

		if at >= 0 {
			text = text[:at]
		}

		if _, failed := console.Write(text); failed != nil {
			return false // the other direction says why
		}

		if at >= 0 || err != nil {
			return at >= 0 || terminal
		}
	}
}

// writer tells failures of the output from those of the console.
type writer struct{ io.Writer }

type outputError struct{ error }

// Write implements io.Writer.
func (w writer) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		err = outputError{err}
	}

	return n, err
}

// isOutput reports whether the reader of the output went away.
func isOutput(err error) bool {
	_, is := err.(outputError) //nolint:errorlint // io.Copy returns it as it is

	return is
}

// consoleEnded says why a console has ended by itself: with its guest, or for another reason, which is an error.
func (a *app) consoleEnded(ctx context.Context, c *client.Client, vm string) error {
	// The end of the console is seen before the state that it comes of.
	for patience := time.After(statePatience); ; {
		object, err := c.Get(ctx, "VM", vm)
		if client.IsNotFound(err) {
			fmt.Fprintf(a.err, "gateway: console: VM/%s is gone\n", vm)

			return nil
		}

		if err != nil {
			return fmt.Errorf("console: %w", err)
		}

		status, err := client.StatusOf[resources.VMStatusSpec](&object)
		if err != nil {
			return fmt.Errorf("console: %w", err)
		}

		if s := status.State; s != resources.StateRunning && s != resources.StatePaused && s != resources.StateUnknown {
			fmt.Fprintf(a.err, "gateway: console: VM/%s is %s\n", vm, s)

			return nil
		}

		select {
		case <-time.After(statePatience / 10):
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-patience:
			return fmt.Errorf("console: it has ended and VM/%s is %s: the VM was started again, somebody took the console over, or host %s was lost",
				vm, status.State, status.Host)
		}
	}
}

// statePatience is how long a VM's state may take to follow the end of its console.
const statePatience = 2 * time.Second
