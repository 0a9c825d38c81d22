//go:build !libvirt_dlopen

package libvirt

import (
	"context"
	"fmt"

	"gateway/hypervisor"
)

// Open is the hypervisor.Opener of libvirt's URIs. This program was built without it.
func Open(_ context.Context, uri, _ string) (hypervisor.Driver, error) {
	return nil, fmt.Errorf("error connecting to %s: %w: this program was built without libvirt: build it with "+
		"go build -tags libvirt_dlopen,libvirt_without_lxc,libvirt_without_qemu ./cmd/gateway", uri, hypervisor.ErrUnsupported)
}
