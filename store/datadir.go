package store

// dataDir is a data directory that this process holds.
type dataDir struct{}

func (d *dataDir) close() error { return nil }
