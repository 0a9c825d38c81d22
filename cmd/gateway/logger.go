package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"gateway/config"
)

// newLogger returns the logger of `gateway run`, on standard error, and its level, which can be changed.
func newLogger(cfg config.Log) (*zap.Logger, zap.AtomicLevel, error) {
	level := zap.NewAtomicLevel()
	if err := setLevel(level, cfg.Level); err != nil {
		return nil, level, err
	}

	settings := zap.NewProductionConfig()
	settings.Level = level
	settings.DisableStacktrace = true
	settings.EncoderConfig.EncodeTime = zapcore.RFC3339NanoTimeEncoder

	if cfg.Format == "console" || isTerminal(os.Stderr) {
		settings.Encoding = "console"
		settings.EncoderConfig = zap.NewDevelopmentEncoderConfig()
		settings.EncoderConfig.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
	}

	settings.DisableCaller = true

	logger, err := settings.Build()
	if err != nil {
		return nil, level, fmt.Errorf("error starting the log: %w", err)
	}

	return logger, level, nil
}

// flush writes what the logger holds back. Terminals and pipes can't be flushed, and need not be.
func flush(logger *zap.Logger) error {
	err := logger.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTTY) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}

	return err
}
