//go:build linux

// Command libvirtd starts virtlogd and libvirtd where no service manager does, and stays their parent: it adopts and
// collects the QEMU processes that they leave behind. On machines whose first process is slow to do so, libvirt waits
// seconds for each process that it ends, and each start of a domain takes half a minute.
//
// It runs until libvirtd ends. Signals end only this program, never the domains.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "libvirtd: %s\n", err)
		os.Exit(1)
	}
}

func run() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("error becoming the parent of orphans: %w", err)
	}

	// Before the first child, so that no end of one is missed.
	died := make(chan os.Signal, 16)
	signal.Notify(died, syscall.SIGCHLD)

	if _, err := start("virtlogd"); err != nil {
		return err
	}

	daemon, err := start("libvirtd")
	if err != nil {
		return err
	}

	for range died {
		ended, err := reap(daemon)
		if err != nil || ended {
			return err
		}
	}

	return nil
}

// start starts a daemon in the foreground, in a session of its own, so that Ctrl-C in a terminal does not reach it.
func start(name string) (pid int, err error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return 0, err
	}

	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close() //nolint:errcheck // the child has it

	process, err := os.StartProcess(path, []string{path}, &os.ProcAttr{
		Files: []*os.File{null, null, null}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("error starting %s: %w", name, err)
	}

	return process.Pid, process.Release()
}

// reap collects every process that has ended, and reports whether the daemon is one of them.
func reap(daemon int) (ended bool, err error) {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)

		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || pid == 0:
			return ended, nil // nothing more has ended
		case pid == daemon:
			ended = true
		}
	}
}
