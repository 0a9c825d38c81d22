package gateway

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"gateway/store"
)

func TestTheRuntimesRoutineIsLeftOutAndWhatControllersDoIsNot(t *testing.T) {
	for name, test := range map[string]struct {
		level zapcore.Level
		want  []string
	}{
		"at level info":  {zapcore.InfoLevel, []string{"placed", "reconcile failed", "reconcile failed"}},
		"at level debug": {zapcore.DebugLevel, []string{"reconcile succeeded", "placed", "reconcile failed", "reconcile failed", "controller failed"}},
		"at level error": {zapcore.ErrorLevel, []string{"reconcile failed", "reconcile failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			core, logged := observer.New(test.level)
			logger := withoutRoutine(zap.New(core)).With(zap.String("controller", "vm"))

			logger.Info("reconcile succeeded")
			logger.Info("placed")
			logger.Error("reconcile failed")
			logger.Error("reconcile failed", zap.Error(errors.New("no")))
			logger.Error("controller failed", zap.Error(fmt.Errorf("error writing: %w", store.ErrUnwritable)))

			var messages []string
			for _, entry := range logged.All() {
				require.Equal(t, "vm", entry.ContextMap()["controller"])
				messages = append(messages, entry.Message)
			}

			require.Equal(t, test.want, messages)
		})
	}
}
