package hypervisor

import (
	"context"
	"errors"
	"io"
)

// Errors of consoles that callers tell apart with errors.Is.
var (
	// ErrOff says that the domain is off, so that there is nothing to attach to.
	ErrOff = errors.New("the domain is off")
	// ErrNoConsole says that the domain has no serial console that can be attached to.
	ErrNoConsole = errors.New("the domain has no serial console")
	// ErrAttached says that somebody else is attached to the console.
	ErrAttached = errors.New("somebody else is attached to the console")
)

// Console is an attached serial console: what is written goes to the guest, what is read comes from it. Read returns io.EOF
// when the domain goes off, when somebody else takes the console over, and when the connection to the host is lost. Read, Write
// and Close may be called by different goroutines.
type Console = io.ReadWriteCloser

// MaxConsoles is how many consoles of one host may be attached at the same time: each has a connection of its own to it.
const MaxConsoles = 16

// Console attaches to a console within the time of a step. One that comes later is let go of.
func (g *guarded) Console(ctx context.Context, uuid string, force bool) (Console, error) {
	return do(ctx, g, call{name: "Console", many: true}, func(ctx context.Context) (Console, error) {
		console, err := g.driver.Console(ctx, uuid, force)
		if err == nil && ctx.Err() != nil {
			return nil, errors.Join(context.Cause(ctx), console.Close())
		}

		return console, err
	})
}
