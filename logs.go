package gateway

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// routine are the messages of the COSI runtime at level info: one for each reconcile, which would cost a third of its CPU,
// and one for each object that has gone.
var routine = map[string]bool{
	"reconcile succeeded":                     true,
	"reconcile skipped":                       true,
	"destroy the resource without finalizers": true,
}

// withoutRoutine is what the runtime logs without its routine: what the controllers say they did stays.
func withoutRoutine(logger *zap.Logger) *zap.Logger {
	return logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core { return quietCore{core} }))
}

// quietCore leaves out the routine at level info; at level debug all is there.
type quietCore struct{ zapcore.Core }

// With implements zapcore.Core.
func (c quietCore) With(fields []zapcore.Field) zapcore.Core { return quietCore{c.Core.With(fields)} }

// Check implements zapcore.Core.
func (c quietCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if entry.Level == zapcore.InfoLevel && routine[entry.Message] && !c.Enabled(zapcore.DebugLevel) {
		return checked
	}

	return c.Core.Check(entry, checked)
}
