package nocloud

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/kdomanski/iso9660"
)

// label is what cloud-init looks for.
const label = "cidata"

// The times of a volume descriptor, which is the 17th sector: made, changed, in effect (ECMA-119 8.4.26, 27, 29). One seed is
// always the same bytes.
const (
	sector   = 2048
	madeAt   = 16*sector + 813
	changeAt = 16*sector + 830
	effectAt = 16*sector + 864
)

// someTime is the first of January 2000, UTC.
var someTime = append([]byte("2000010100000000"), 0)

// ISO returns the seed as an image.
func (s *Seed) ISO() (_ []byte, err error) {
	files, err := s.files()
	if err != nil {
		return nil, err
	}

	writer, err := iso9660.NewWriter()
	if err != nil {
		return nil, fmt.Errorf("error making the seed: %w", err)
	}

	defer func() {
		// It has the user data in a directory that only we can read.
		if failed := writer.Cleanup(); failed != nil {
			err = errors.Join(err, fmt.Errorf("error removing what the seed was made of: %w", failed))
		}
	}()

	for _, f := range files {
		if err := writer.AddFile(bytes.NewReader(f.content), f.name); err != nil {
			return nil, fmt.Errorf("error adding %s to the seed: %w", f.name, err)
		}
	}

	var image bytes.Buffer
	if err := writer.WriteTo(&image, label); err != nil {
		return nil, fmt.Errorf("error writing the seed: %w", err)
	}

	content := image.Bytes()
	for _, at := range []int{madeAt, changeAt, effectAt} {
		copy(content[at:], someTime)
	}

	return content, nil
}

// Read returns the files of an image by name, and its label.
func Read(image []byte) (files map[string]string, name string, err error) {
	opened, err := iso9660.OpenImage(bytes.NewReader(image))
	if err != nil {
		return nil, "", fmt.Errorf("error opening the seed: %w", err)
	}

	if name, err = opened.Label(); err != nil {
		return nil, "", fmt.Errorf("error reading the label of the seed: %w", err)
	}

	root, err := opened.RootDir()
	if err != nil {
		return nil, "", fmt.Errorf("error reading the seed: %w", err)
	}

	children, err := root.GetChildren()
	if err != nil {
		return nil, "", fmt.Errorf("error listing the seed: %w", err)
	}

	files = map[string]string{}

	for _, child := range children {
		content, err := io.ReadAll(child.Reader())
		if err != nil {
			return nil, "", fmt.Errorf("error reading %s of the seed: %w", child.Name(), err)
		}

		files[child.Name()] = string(content)
	}

	return files, name, nil
}
