//go:build !libvirt_dlopen

package main

import (
	"context"
	"errors"
)

// errNoLibvirt says how to build with it.
var errNoLibvirt = errors.New("built without libvirt: use the tags of the Makefile")

func possible() error { return errNoLibvirt }

func loopJob(context.Context, *childContext) (any, error) { return nil, errNoLibvirt }
