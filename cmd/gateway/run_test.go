package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// reloading is a gateway whose Reload returns an error, or nil.
type reloading struct{ err error }

func (r reloading) Reload() error { return r.err }

func TestSIGHUPReadsCertificatesAndTheLogLevelAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	level := zap.NewAtomicLevel()
	core, logs := observer.New(zap.DebugLevel)
	logger, flags := zap.New(core), runFlags{config: path}

	write("log: {level: debug}\n")
	again(reloading{}, flags, level, logger)
	require.Equal(t, zapcore.DebugLevel, level.Level())

	write("log: {level: loud}\n")
	again(reloading{}, flags, level, logger)
	require.Equal(t, zapcore.DebugLevel, level.Level(), "what can't be read stays as it was")

	write("log: {level: warn}\n")
	again(reloading{errors.New("no certificate")}, flags, level, logger)
	require.Equal(t, zapcore.WarnLevel, level.Level(), "one fault does not keep the other from being read")

	var said []string
	for _, entry := range logs.All() {
		said = append(said, entry.Level.String())
	}

	require.Equal(t, []string{"info", "error", "error"}, said)
}

func TestFlagsAreAboveTheEnvironmentAndTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte("dataDir: /file\nhttp: {listen: \"127.0.0.1:1\"}\ndocuments: [/a]\n"), 0o600))
	t.Setenv("GATEWAY_DATADIR", "/environment")

	cfg, err := (&runFlags{config: path}).load()
	require.NoError(t, err)
	require.Equal(t, "/environment", cfg.DataDir)
	require.Equal(t, []string{"/a"}, cfg.Documents)

	cfg, err = (&runFlags{config: path, dataDir: "/flag", listen: "127.0.0.1:2", documents: []string{"/b", "/c"}}).load()
	require.NoError(t, err)
	require.Equal(t, "/flag", cfg.DataDir)
	require.Equal(t, "127.0.0.1:2", cfg.HTTP.Listen)
	require.Equal(t, []string{"/b", "/c"}, cfg.Documents)
}
