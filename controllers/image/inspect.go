package image

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"gateway/hypervisor"
	"gateway/resources"
)

// headerBytes of an image are looked at before anything is stored.
const headerBytes = 512

// errInvalid says that an image is not what was declared, or nothing that a disk may start from.
var errInvalid = errors.New("the image is refused")

// header is what the first bytes of an image say.
type header struct {
	format string
	// virtual is the size of the disk; 0: that of the file.
	virtual resources.Size
	// backed reports whether it refers to another file for its data.
	backed bool
}

// packed are the magics of files that have to be unpacked before they are images.
var packed = map[string]string{
	"\x1f\x8b": "gzip", "\xfd7zXZ\x00": "xz", "\x28\xb5\x2f\xfd": "zstd", "BZh": "bzip2", "PK\x03\x04": "zip",
}

const qcow2Magic = "QFI\xfb"

// qcow2Start are the fields of a qcow2 header that are looked at, as QEMU's docs/interop/qcow2.txt has them.
type qcow2Start struct {
	Magic         [4]byte
	Version       uint32
	BackingOffset uint64
	BackingSize   uint32
	ClusterBits   uint32
	Size          uint64
	CryptMethod   uint32
	_             [36]byte
	// Incompatible are the features that must be known; it exists since version 3.
	Incompatible uint64
}

// externalData is the bit of Incompatible that says that the data is in another file.
const externalData = 1 << 2

// inspect reads the first bytes of an image.
func inspect(start []byte) (header, error) {
	for magic, name := range packed {
		if bytes.HasPrefix(start, []byte(magic)) {
			return header{}, fmt.Errorf("%w: it is packed with %s: offer the unpacked file", errInvalid, name)
		}
	}

	if !bytes.HasPrefix(start, []byte(qcow2Magic)) {
		return header{format: hypervisor.FormatRaw}, nil
	}

	var q qcow2Start
	if err := binary.Read(bytes.NewReader(start), binary.BigEndian, &q); err != nil {
		return header{}, fmt.Errorf("%w: its qcow2 header is cut off", errInvalid)
	}

	switch {
	case q.Version != 2 && q.Version != 3:
		return header{}, fmt.Errorf("%w: qcow2 version %d is not known", errInvalid, q.Version)
	case q.CryptMethod != 0:
		return header{}, fmt.Errorf("%w: it is encrypted", errInvalid)
	case q.Size == 0 || q.Size > math.MaxInt64:
		return header{}, fmt.Errorf("%w: its disk has %d bytes", errInvalid, q.Size)
	}

	return header{
		format: hypervisor.FormatQCOW2, virtual: resources.Size(q.Size),
		backed: q.BackingOffset != 0 || q.Version >= 3 && q.Incompatible&externalData != 0,
	}, nil
}
