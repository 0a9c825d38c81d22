package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// within returns nil when the path is below one of the directories, as it is written and after symbolic links where it
// exists on this machine: a link below an allowed directory must not lead out of it. A path of another host's machine can
// only be judged as it is written.
func within(path string, directories []string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return fmt.Errorf("%q is not a clean absolute path", path)
	}

	if !below(path, directories) {
		return fmt.Errorf("%s is not allowed", path)
	}

	real, err := resolve(path)
	if err != nil {
		return fmt.Errorf("%s can't be checked for symbolic links: %w", path, err)
	}

	resolved := make([]string, 0, len(directories))

	for _, directory := range directories {
		if target, err := resolve(filepath.Clean(directory)); err == nil {
			resolved = append(resolved, target)
		}
	}

	if !below(real, resolved) {
		return fmt.Errorf("%s is a symbolic link that leads to %s, which is not allowed", path, real)
	}

	return nil
}

// below reports whether the path is one of the directories or in one of them.
func below(path string, directories []string) bool {
	for _, directory := range directories {
		directory = filepath.Clean(directory)
		if path == directory || strings.HasPrefix(path, strings.TrimSuffix(directory, "/")+"/") {
			return true
		}
	}

	return false
}

// resolve follows the symbolic links of the part of the path that exists.
func resolve(path string) (string, error) {
	rest := ""

	for {
		real, err := filepath.EvalSymlinks(path)

		switch {
		case err == nil:
			return filepath.Join(real, rest), nil
		case !errors.Is(err, fs.ErrNotExist) || path == "/":
			return "", err
		}

		// What a dangling link will lead to one day can't be judged now.
		if _, err := os.Lstat(path); err == nil {
			return "", fmt.Errorf("%s is a dangling symbolic link", path)
		}

		path, rest = filepath.Dir(path), filepath.Join(filepath.Base(path), rest)
	}
}
