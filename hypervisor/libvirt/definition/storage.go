package definition

import (
	"fmt"
	"strings"

	"libvirt.org/go/libvirtxml"

	"gateway/hypervisor"
	"gateway/resources"
)

// Pool returns the definition of the directory in which the gateway keeps its volumes.
func Pool(name, uuid, path string) (string, error) {
	doc := &libvirtxml.StoragePool{
		Type: "dir",
		Name: name,
		UUID: uuid,
		Target: &libvirtxml.StoragePoolTarget{
			Path: path,
			// QEMU's user passes through to files that libvirt opens to it; nobody else may list them.
			Permissions: &libvirtxml.StoragePoolTargetPermissions{Mode: "0711"},
		},
	}

	text, err := doc.Marshal()
	if err != nil {
		return "", fmt.Errorf("error writing the definition of pool %q: %w", name, err)
	}

	return text, nil
}

// PoolPath returns the directory of a pool's definition.
func PoolPath(text string) (string, error) {
	doc := &libvirtxml.StoragePool{}
	if err := doc.Unmarshal(text); err != nil {
		return "", fmt.Errorf("error reading the definition of a pool: %w", err)
	}

	if doc.Target == nil {
		return "", nil
	}

	return doc.Target.Path, nil
}

// Volume returns the definition of a new qcow2 volume. Without a size it is as large as its image.
func Volume(spec *hypervisor.VolumeSpec) (string, error) {
	doc := &libvirtxml.StorageVolume{
		Name: spec.Name,
		Target: &libvirtxml.StorageVolumeTarget{
			Format:      &libvirtxml.StorageVolumeTargetFormat{Type: "qcow2"},
			Permissions: &libvirtxml.StorageVolumeTargetPermissions{Mode: "0600"},
			Compat:      "1.1",
		},
	}

	if spec.Size > 0 {
		doc.Capacity = &libvirtxml.StorageVolumeSize{Unit: "bytes", Value: uint64(spec.Size)}
	}

	if spec.Backing != "" {
		doc.BackingStore = &libvirtxml.StorageVolumeBackingStore{
			Path:   spec.Backing,
			Format: &libvirtxml.StorageVolumeTargetFormat{Type: driverFormat(spec.BackingFormat)},
		}
	}

	text, err := doc.Marshal()
	if err != nil {
		return "", fmt.Errorf("error writing the definition of volume %q: %w", spec.Name, err)
	}

	return text, nil
}

// RawVolume returns the definition of a new file that is empty.
func RawVolume(name string) (string, error) {
	doc := &libvirtxml.StorageVolume{
		Name:       name,
		Capacity:   &libvirtxml.StorageVolumeSize{Unit: "bytes"},
		Allocation: &libvirtxml.StorageVolumeSize{Unit: "bytes"},
		Target: &libvirtxml.StorageVolumeTarget{
			Format:      &libvirtxml.StorageVolumeTargetFormat{Type: formatRaw},
			Permissions: &libvirtxml.StorageVolumeTargetPermissions{Mode: "0600"},
		},
	}

	text, err := doc.Marshal()
	if err != nil {
		return "", fmt.Errorf("error writing the definition of volume %q: %w", name, err)
	}

	return text, nil
}

// VolumeState is what a pool knows of a volume.
type VolumeState struct {
	Path, Format, Backing string
	Capacity, Allocation  resources.Size
	// Physical is the length of the file; 0: not known.
	Physical resources.Size
}

// ParseVolume reads what a pool knows of a volume.
func ParseVolume(text string) (VolumeState, error) {
	doc := &libvirtxml.StorageVolume{}
	if err := doc.Unmarshal(text); err != nil {
		return VolumeState{}, fmt.Errorf("error reading the definition of a volume: %w", err)
	}

	state := VolumeState{Capacity: volumeSize(doc.Capacity), Allocation: volumeSize(doc.Allocation), Physical: volumeSize(doc.Physical)}

	if doc.Target != nil {
		state.Path = doc.Target.Path

		if doc.Target.Format != nil {
			state.Format = doc.Target.Format.Type
		}
	}

	if doc.BackingStore != nil {
		state.Backing = doc.BackingStore.Path
	}

	return state, nil
}

func volumeSize(size *libvirtxml.StorageVolumeSize) resources.Size {
	if size == nil {
		return 0
	}

	if size.Unit == "" {
		return resources.Size(size.Value)
	}

	return sizeOf(size.Value, size.Unit)
}

// hollow is the most that a qcow2 file occupies before anything was written to it: its header and first tables.
const hollow = 512 * resources.KiB

// Unfinished reports whether a volume is what an interrupted creation leaves behind: no header yet, or no size, or without
// the image that it was to start from, and nothing ever written to it. Such a volume was never given to a domain.
func (v VolumeState) Unfinished(spec *hypervisor.VolumeSpec) bool {
	if v.Allocation > hollow || !strings.HasSuffix(spec.Name, ".qcow2") {
		return false
	}

	return v.Format != "qcow2" || v.Capacity == 0 || (spec.Backing != "" && v.Backing == "")
}
