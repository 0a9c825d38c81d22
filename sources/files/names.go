package files

import (
	"path/filepath"
	"strings"
)

// isDocument reports whether a file of this name may hold documents: .yaml, .yml or .json, and none of the names under which
// editors and copying programs keep what is not finished: vim's .f.swp, 4913 and f~, emacs' .#f and #f#, rsync's .f.XXXXXX.
func isDocument(name string) bool {
	if isIgnored(name) {
		return false
	}

	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}

	return false
}

// isIgnored reports whether neither a file nor a directory of this name is looked at.
func isIgnored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#") ||
		strings.HasSuffix(name, "~") || strings.HasSuffix(name, ".tmp") || strings.HasSuffix(name, ".swp") ||
		name == "4913" || name == "lost+found"
}

// isUnder reports whether path is dir or below it.
func isUnder(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
