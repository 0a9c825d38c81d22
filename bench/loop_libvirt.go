//go:build libvirt_dlopen

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"gateway/test/libvirtd"
)

// possible returns why there can be no libvirtd of our own; nil: there can.
func possible() error { return libvirtd.Possible() }

// loopJob is what a person would write who only wants the domains: define and start each, in parallel.
func loopJob(_ context.Context, c *childContext) (any, error) {
	var args loopArgs
	if err := c.decode(&args); err != nil {
		return nil, err
	}

	connections := make([]*libvirt.Connect, args.Workers)

	for n := range connections {
		connection, err := libvirt.NewConnect(args.URI)
		if err != nil {
			return nil, err
		}
		defer connection.Close() //nolint:errcheck // the process ends

		connections[n] = connection
	}

	var (
		next  atomic.Int64
		wg    sync.WaitGroup
		errs  = make([]error, len(connections))
		start = time.Now()
	)

	for n, connection := range connections {
		wg.Go(func() {
			for k := next.Add(1); k <= int64(args.VMs) && errs[n] == nil; k = next.Add(1) {
				errs[n] = args.startOne(connection, int(k))
			}
		})
	}

	wg.Wait()

	return time.Since(start), errors.Join(errs...)
}

func (a *loopArgs) startOne(connection *libvirt.Connect, n int) error {
	domain := &libvirtxml.Domain{
		Type: "test", Name: vmName(n), Memory: &libvirtxml.DomainMemory{Value: 128, Unit: "MiB"},
		VCPU: &libvirtxml.DomainVCPU{Value: 1}, OS: &libvirtxml.DomainOS{Type: &libvirtxml.DomainOSType{Type: "hvm"}},
	}
	flags := libvirt.DOMAIN_NONE

	if a.QEMU {
		domain.Type = "qemu"
		domain.OS.Type.Arch, domain.OS.Type.Machine = "x86_64", "q35"
		flags = libvirt.DOMAIN_START_PAUSED
	}

	text, err := domain.Marshal()
	if err != nil {
		return err
	}

	defined, err := connection.DomainDefineXML(text)
	if err != nil {
		return fmt.Errorf("error defining domain %d: %w", n, err)
	}
	defer defined.Free() //nolint:errcheck // the process ends

	if err := defined.CreateWithFlags(flags); err != nil {
		return fmt.Errorf("error starting domain %d: %w", n, err)
	}

	return nil
}
