package hypervisor

import (
	"errors"
	"fmt"
	"strings"

	"gateway/resources"
)

// ErrInUse says that a file can't be removed, since volumes start from it.
var ErrInUse = errors.New("in use")

// ImageSpec is the file of an image that the gateway stores on a host.
type ImageSpec struct {
	// Name of the file, of ImageName.
	Name string
	// Size is how many bytes there are; 0: not known before the end.
	Size resources.Size
	// VirtualSize is the size of the disk that the image is.
	VirtualSize resources.Size
}

// ImageFile is the file of an image that the gateway keeps on a host.
type ImageFile struct {
	Name, Path string
	// Bytes is the size of the file, VirtualSize that of the disk that it is.
	Bytes, VirtualSize resources.Size
	// Complete reports whether it was stored to its end. What is not complete is never used.
	Complete bool
}

// File is a file on a host that somebody else put there.
type File struct {
	// Bytes is the size of the file, VirtualSize that of the disk that it is, as the hypervisor sees it.
	Bytes, VirtualSize resources.Size
}

// Formats of images.
const (
	FormatQCOW2 = "qcow2"
	FormatRaw   = "raw"
)

// imagePrefix starts the names of images. Names of VMs and disks have no dots, so that no volume of a disk is called alike.
const imagePrefix = "image."

// ImageName returns the name of an image's file: image.NAME.DIGEST.FORMAT, with the first 16 digits of the checksum, so that
// another content is another file: what disks start from never changes.
func ImageName(image, sha256, format string) string {
	return fmt.Sprintf("%s%s.%.16s.%s", imagePrefix, image, sha256, format)
}

// ParseImageName takes apart what ImageName returned, and reports whether it did.
func ParseImageName(name string) (image, digest, format string, ok bool) {
	rest, found := strings.CutPrefix(name, imagePrefix)
	parts := strings.Split(rest, ".")

	if !found || len(parts) != 3 || parts[2] != FormatQCOW2 && parts[2] != FormatRaw {
		return "", "", "", false
	}

	return parts[0], parts[1], parts[2], true
}
