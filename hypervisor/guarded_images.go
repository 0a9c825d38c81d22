package hypervisor

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

func (g *guarded) Images(ctx context.Context) ([]ImageFile, error) {
	// A pool looks at each of its files.
	return do(ctx, g, call{name: "Images", many: true}, g.driver.Images)
}

func (g *guarded) RemoveImage(ctx context.Context, name string) error {
	return doErr(ctx, g, step("RemoveImage", "image", name), func(ctx context.Context) error { return g.driver.RemoveImage(ctx, name) })
}

func (g *guarded) StoreImage(ctx context.Context, spec ImageSpec, content io.Reader) (ImageFile, error) {
	c := step("StoreImage", "image", spec.Name)
	c.flow = newFlow()

	return do(ctx, g, c, func(ctx context.Context) (ImageFile, error) {
		return g.driver.StoreImage(ctx, spec, c.flow.reader(content))
	})
}

func (g *guarded) ReadFile(ctx context.Context, path string, content io.Writer) (File, error) {
	c := call{name: "ReadFile", object: "file " + path, many: true}

	if content == nil {
		return do(ctx, g, c, func(ctx context.Context) (File, error) { return g.driver.ReadFile(ctx, path, nil) })
	}

	c.flow = newFlow()

	return do(ctx, g, c, func(ctx context.Context) (File, error) { return g.driver.ReadFile(ctx, path, c.flow.writer(content)) })
}

// flow tells a long call that goes on from one that hangs: the hypervisor has the time of a step from each piece of content
// to the next. The time that the other end of the content takes is not the hypervisor's.
type flow struct {
	mu sync.Mutex // guards the following
	// outside reports whether the content's other end is being waited for.
	outside bool
	last    time.Time
	closed  bool
}

func newFlow() *flow { return &flow{} }

// left returns how long the hypervisor may still take; 0 or less: it hangs.
func (f *flow) left() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()

	if f.outside {
		return StepTimeout
	}

	return StepTimeout - time.Since(f.last)
}

// close ends the flow: an abandoned call gets no more content.
func (f *flow) close() {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.closed = true
}

// pass moves one piece of content.
func (f *flow) pass(move func() (int, error)) (int, error) {
	f.mu.Lock()
	closed := f.closed
	f.outside = true
	f.mu.Unlock()

	if closed {
		return 0, fmt.Errorf("%w: the call was given up", ErrUnreachable)
	}

	n, err := move()

	f.mu.Lock()
	f.outside, f.last = false, time.Now()
	f.mu.Unlock()

	return n, err
}

// watch returns a context that ends when the hypervisor hangs, and a function that ends watching.
func (f *flow) watch(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)

	f.mu.Lock()
	f.last = time.Now()
	f.mu.Unlock()

	go func() {
		for {
			left := f.left()
			if left <= 0 {
				cancel(context.DeadlineExceeded)

				return
			}

			select {
			case <-time.After(left):
			case <-ctx.Done():
				return
			}
		}
	}()

	return ctx, func() {
		f.close()
		cancel(nil)
	}
}

func (f *flow) reader(r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) { return f.pass(func() (int, error) { return r.Read(p) }) })
}

func (f *flow) writer(w io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) { return f.pass(func() (int, error) { return w.Write(p) }) })
}

type (
	readerFunc func(p []byte) (int, error)
	writerFunc func(p []byte) (int, error)
)

func (f readerFunc) Read(p []byte) (int, error)  { return f(p) }
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
