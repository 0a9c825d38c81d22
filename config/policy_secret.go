package config

import (
	"fmt"
	"io"
	"os"
)

// maxSecretFile is what a document may have of the same kind: 256 KiB, as of user data.
const maxSecretFile = 256 << 10

// ReadSecret reads a file of secrets that a document names, of at most 256 KiB. It is held against policy.secretPaths again: a
// symbolic link may lead elsewhere than when the document was taken. Errors never have what is in it.
func (p Policy) ReadSecret(path string) ([]byte, error) {
	if err := within(path, p.SecretPaths); err != nil {
		return nil, fmt.Errorf("%w: policy.secretPaths has %s", err, listed(p.SecretPaths))
	}

	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("error opening a file of secrets: %w", err)
	}

	defer func() {
		// Nothing was written.
		_ = file.Close()
	}()

	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}

	if err != nil {
		return nil, err
	}

	content, err := io.ReadAll(io.LimitReader(file, maxSecretFile+1))
	if err == nil && len(content) > maxSecretFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxSecretFile)
	}

	return content, err
}
