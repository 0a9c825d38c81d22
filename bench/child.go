package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
)

// job is what a child process does. It reads its arguments from args and returns its result; serve tells the parent that
// it is ready and waits until the parent has done its part.
type job func(ctx context.Context, c *childContext) (any, error)

// jobs are all of them by name.
var jobs = map[string]job{
	"bare":    bareJob,
	"gateway": gatewayJob,
	"latency": latencyJob,
	"durable": durableJob,
	"hooks":   hooksJob,
	"peer":    peerJob,
	"status":  statusJob,
	"loop":    loopJob,
	"restart": restartJob,
	"hanging": hangingJob,
}

// childContext is what a job gets.
type childContext struct {
	args  json.RawMessage
	stdin *bufio.Reader
}

// decode reads the arguments.
func (c *childContext) decode(into any) error { return json.Unmarshal(c.args, into) }

// serve sends what the parent needs and returns once the parent says so.
func (c *childContext) serve(hello any) error {
	if err := send(hello); err != nil {
		return err
	}

	_, err := c.stdin.ReadString('\n')
	if errors.Is(err, io.EOF) {
		return nil
	}

	return err
}

func send(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }

// order is the first line that a child reads.
type order struct {
	Args json.RawMessage
	// Profile, if set, is the path of the profiles without their suffix.
	Profile string
}

// runChild runs a job and sends its result.
func runChild(name string) int {
	stdin := bufio.NewReader(os.Stdin)

	line, err := stdin.ReadBytes('\n')
	if err != nil {
		return fail(err)
	}

	var o order
	if err := json.Unmarshal(line, &o); err != nil {
		return fail(err)
	}

	stop, err := profile(o.Profile)
	if err != nil {
		return fail(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	result, err := jobs[name](ctx, &childContext{args: o.Args, stdin: stdin})
	if err := errors.Join(err, stop()); err != nil {
		return fail(err)
	}

	if err := send(result); err != nil {
		return fail(err)
	}

	return 0
}

// profile starts a CPU profile. What it returns ends it and writes the heap's.
func profile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}

	cpu, err := os.Create(path + ".cpu.pprof")
	if err != nil {
		return nil, err
	}

	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, err
	}

	return func() error {
		pprof.StopCPUProfile()

		heap, err := os.Create(path + ".heap.pprof")
		if err != nil {
			return err
		}

		return errors.Join(cpu.Close(), pprof.WriteHeapProfile(heap), heap.Close())
	}, nil
}

// child is a running child process.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *json.Decoder
}

// start starts a job in a process of its own.
func (b *bench) start(ctx context.Context, name string, args any) (*child, error) {
	encoded, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}

	o := order{Args: encoded}

	if b.profiles != "" {
		b.made++

		o.Profile, err = filepath.Abs(filepath.Join(b.profiles, fmt.Sprintf("%02d-%s", b.made, name)))
		if err != nil {
			return nil, err
		}
	}

	self, err := os.Executable()
	if err != nil {
		return nil, err
	}

	c := &child{cmd: exec.CommandContext(ctx, self, "-child", name)}
	c.cmd.Stderr = os.Stderr

	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}

	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}

	c.stdout = json.NewDecoder(stdout)

	if err := c.cmd.Start(); err != nil {
		return nil, err
	}

	return c, json.NewEncoder(c.stdin).Encode(o)
}

// hello reads what a job says with serve.
func (c *child) hello(into any) error { return c.stdout.Decode(into) }

// finish lets the job come to its end and reads its result.
func (c *child) finish(into any) error {
	if _, err := io.WriteString(c.stdin, "\n"); err != nil {
		return errors.Join(err, c.cmd.Wait())
	}

	err := c.stdout.Decode(into)

	return errors.Join(err, c.stdin.Close(), c.cmd.Wait())
}

// do runs a job from start to end.
func (b *bench) do(ctx context.Context, name string, args, into any) error {
	c, err := b.start(ctx, name, args)
	if err != nil {
		return fmt.Errorf("error starting %s: %w", name, err)
	}

	if err := c.finish(into); err != nil {
		return fmt.Errorf("error running %s: %w", name, err)
	}

	return nil
}
