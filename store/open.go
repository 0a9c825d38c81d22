package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Engines of a store.
const (
	EngineBolt   = "bolt"
	EngineMemory = "memory"
)

// Options say which store to open.
type Options struct {
	// DataDir is locked, and made with mode 0700 where it is missing. The memory engine locks it too, if it is given, and
	// keeps nothing in it.
	DataDir string
	// Engine is EngineBolt (default) or EngineMemory.
	Engine string
	// ID of the gateway; empty: the stored one, or a new one. It has to be the stored one where one is stored.
	ID string
	// Logger may be nil.
	Logger *zap.Logger
	// Registry of the metrics may be nil.
	Registry prometheus.Registerer
}

// Open opens the store. The errors name the directory and what to do; a store that is damaged, missing, newer than this
// program or in use is never opened as an empty one.
func Open(ctx context.Context, o Options) (Store, error) {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}

	if o.Engine == "" {
		o.Engine = EngineBolt
	}

	if o.Engine != EngineBolt && o.Engine != EngineMemory {
		return nil, fmt.Errorf("%q is not a store engine: use %s or %s", o.Engine, EngineBolt, EngineMemory)
	}

	if o.DataDir == "" {
		if o.Engine == EngineBolt {
			return nil, errors.New("the bolt engine needs a data directory")
		}

		if o.ID == "" {
			o.ID = uuid.NewString()
		}

		return NewMemory(o.ID), nil
	}

	dir, err := openDataDir(o.DataDir)
	if err != nil {
		return nil, err
	}

	s, err := openIn(ctx, dir, &o)
	if err != nil {
		return nil, errors.Join(err, dir.close())
	}

	return s, nil
}

func openIn(ctx context.Context, dir *dataDir, o *Options) (Store, error) {
	stored, err := dir.storedID()
	if err != nil {
		return nil, err
	}

	if o.Engine == EngineBolt {
		return openBolt(ctx, dir, stored, o)
	}

	id, err := dir.chooseID(stored, o.ID)
	if err != nil {
		return nil, err
	}

	return newMemory(id, dir), nil
}
