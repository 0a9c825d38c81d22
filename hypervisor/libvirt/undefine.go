//go:build libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"fmt"

	"libvirt.org/go/libvirt"

	"gateway/hypervisor"
	"gateway/hypervisor/libvirt/definition"
)

// UndefineDomain implements hypervisor.Driver.
func (d *driver) UndefineDomain(ctx context.Context, uuid string) error {
	err := d.onOurs(ctx, "undefining domain", uuid, func(_ *libvirt.Connect, dom *libvirt.Domain) error {
		state, _, err := dom.GetState()
		if err != nil {
			return err
		}

		// libvirt would let a running domain go on without a definition.
		if isOn(state) {
			return fmt.Errorf("%w: the domain is on", hypervisor.ErrBusy)
		}

		flags, err := undefineFlags(dom)
		if err != nil {
			return err
		}

		return dom.UndefineFlags(flags)
	})
	if errors.Is(err, hypervisor.ErrNotFound) {
		return nil
	}

	return err
}

// undefineFlags asks for the removal of what the domain has and of nothing else: a hypervisor refuses flags for what it
// does not know, and the removal of a domain that has something no flag was given for.
func undefineFlags(dom *libvirt.Domain) (libvirt.DomainUndefineFlagsValues, error) {
	var flags libvirt.DomainUndefineFlagsValues

	text, err := dom.GetXMLDesc(libvirt.DOMAIN_XML_INACTIVE)
	if err != nil {
		return 0, err
	}

	doc, err := definition.Parse(text)
	if err != nil {
		return 0, err
	}

	if definition.HasNVRAM(doc) {
		flags |= libvirt.DOMAIN_UNDEFINE_NVRAM
	}

	saved, err := dom.HasManagedSaveImage(0)
	if err := known(err); err != nil {
		return 0, err
	}

	if saved {
		flags |= libvirt.DOMAIN_UNDEFINE_MANAGED_SAVE
	}

	snapshots, err := dom.SnapshotNum(0)
	if err := known(err); err != nil {
		return 0, err
	}

	if snapshots > 0 {
		flags |= libvirt.DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
	}

	checkpoints, err := dom.ListAllCheckpoints(0)
	if err := known(err); err != nil {
		return 0, err
	}

	for i := range checkpoints {
		// It fails only for a handle that is none.
		_ = checkpoints[i].Free()
	}

	if len(checkpoints) > 0 {
		flags |= libvirt.DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
	}

	return flags, nil
}

// known returns an error unless it says that the hypervisor has no such thing, in which case the domain has none either.
func known(err error) error {
	if isCode(err, libvirt.ERR_NO_SUPPORT, libvirt.ERR_OPERATION_UNSUPPORTED, libvirt.ERR_ARGUMENT_UNSUPPORTED) {
		return nil
	}

	return err
}
