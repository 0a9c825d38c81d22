//go:build libvirt_dlopen

package libvirt

import (
	"errors"
	"io"

	"libvirt.org/go/libvirt"
)

// pieceSize is the most that libvirt sends in one message of a stream to daemons of every version.
const pieceSize = 256 << 10

// upload writes content into a volume, from its start. An error of the content is returned as it is; the volume has then as
// much as was sent.
func upload(c *libvirt.Connect, vol *libvirt.StorageVol, content io.Reader) (sent int64, err error) {
	stream, err := c.NewStream(0)
	if err != nil {
		return 0, err
	}
	defer freeStream(stream)

	if err := vol.Upload(stream, 0, 0, 0); err != nil {
		return 0, err
	}

	piece := make([]byte, pieceSize)

	for {
		n, err := content.Read(piece)
		if err != nil && !errors.Is(err, io.EOF) {
			// Where that fails too the stream is over all the same.
			_ = stream.Abort()

			return sent, err
		}

		for rest := piece[:n]; len(rest) > 0; {
			m, failed := stream.Send(rest)
			if failed != nil {
				// The stream is over where sending fails.
				return sent, failed
			}

			rest = rest[m:]
			sent += int64(m)
		}

		if err != nil {
			return sent, stream.Finish()
		}
	}
}

// download writes what is in a volume to content.
func download(c *libvirt.Connect, vol *libvirt.StorageVol, content io.Writer) (received int64, err error) {
	stream, err := c.NewStream(0)
	if err != nil {
		return 0, err
	}
	defer freeStream(stream)

	if err := vol.Download(stream, 0, 0, 0); err != nil {
		return 0, err
	}

	piece := make([]byte, pieceSize)

	for {
		n, err := stream.Recv(piece)

		switch {
		case errors.Is(err, io.EOF) || err == nil && n == 0:
			return received, stream.Finish()
		case err != nil:
			return received, err
		}

		received += int64(n)

		if _, err := content.Write(piece[:n]); err != nil {
			// Where that fails too the stream is over all the same.
			_ = stream.Abort()

			return received, err
		}
	}
}

// freeStream lets go of a handle. It fails only for a handle that is none.
func freeStream(stream *libvirt.Stream) { _ = stream.Free() }
