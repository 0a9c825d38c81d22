// Package files is the source of documents in directories: it finds files that were written, changed or removed, waits until
// they are settled, and writes a FileEvent and a FileStatus each, and a FileRoot per directory. It never reads what is in a
// file beyond its digest; controllers/documents does. A Scanner looks at the disk, a Tracker decides what a look means, and
// both work without inotify, which only says where to look sooner. It imports resources, store and intake; the composition
// root registers it.
package files
