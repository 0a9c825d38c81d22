package sim

import (
	"context"
	"fmt"
	"io"
	"sync"

	"gateway/hypervisor"
)

// consoleBuffer is how much of a console's output waits for its reader; what comes after it is lost, as of a serial line.
const consoleBuffer = 64 << 10

// console is an attached console of a domain, whose guest greets and repeats what is typed.
type console struct {
	mu      sync.Mutex // guards the following
	changed *sync.Cond
	in      []byte
	ended   bool
}

// Console implements hypervisor.Driver.
func (d *driver) Console(ctx context.Context, uuid string, force bool) (hypervisor.Console, error) {
	var c *console

	err := d.do(ctx, op{call: "Console", doing: "attaching to the console of domain", subject: uuid}, func() error {
		dom, err := d.ours(uuid)

		switch {
		case err != nil:
			return err
		case dom.live == nil:
			return hypervisor.ErrOff
		case dom.console != nil && !dom.console.isOver() && !force:
			return hypervisor.ErrAttached
		}

		dom.detach()
		c = newConsole(fmt.Sprintf("Connected to domain %s\r\n", dom.spec.Name))
		dom.console = c

		return nil
	})
	if err != nil {
		return nil, err
	}

	go func() {
		select {
		case <-d.done:
			c.end()
		case <-c.over():
		}
	}()

	return c, nil
}

// detach ends the console that is attached.
func (d *domain) detach() {
	if d.console != nil {
		d.console.end()
		d.console = nil
	}
}

func newConsole(greeting string) *console {
	c := &console{in: []byte(greeting)}
	c.changed = sync.NewCond(&c.mu)

	return c
}

// over is closed when the console has ended.
func (c *console) over() <-chan struct{} {
	over := make(chan struct{})

	go func() {
		defer close(over)

		c.mu.Lock()
		defer c.mu.Unlock()

		for !c.ended {
			c.changed.Wait()
		}
	}()

	return over
}

func (c *console) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.ended
}

func (c *console) end() {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.ended = true
	c.changed.Broadcast()
}

// Read implements io.Reader.
func (c *console) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for len(c.in) == 0 {
		if c.ended {
			return 0, io.EOF
		}

		c.changed.Wait()
	}

	n := copy(p, c.in)
	c.in = c.in[n:]

	return n, nil
}

// Write implements io.Writer: the guest's terminal shows what is typed.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.ended {
		return 0, io.ErrClosedPipe
	}

	for _, b := range p {
		if len(c.in) >= consoleBuffer {
			break
		}

		if b == '\r' || b == '\n' {
			c.in = append(c.in, '\r', '\n')

			continue
		}

		c.in = append(c.in, b)
	}

	c.changed.Broadcast()

	return len(p), nil
}

// Close implements io.Closer.
func (c *console) Close() error {
	c.end()

	return nil
}
