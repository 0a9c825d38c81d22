package gateway

import (
	"errors"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"gateway/store"
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

// failures are the runtime's messages that something failed. While the store can't be written everything does, again and again:
// the store itself says when that begins and ends.
var failures = map[string]bool{"reconcile failed": true, "controller failed": true}

// quietCore leaves out the routine at level info, and what fails with the store; at level debug all is there.
type quietCore struct{ zapcore.Core }

// With implements zapcore.Core. The fields are encoded when the first entry is written: COSI makes a logger for each reconcile, and
// most of them write none.
func (c quietCore) With(fields []zapcore.Field) zapcore.Core {
	return quietCore{zapcore.NewLazyWith(c.Core, fields)}
}

// Check implements zapcore.Core.
func (c quietCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if entry.Level == zapcore.InfoLevel && routine[entry.Message] && !c.Enabled(zapcore.DebugLevel) {
		return checked
	}

	if failures[entry.Message] && c.Enabled(entry.Level) {
		return checked.AddCore(entry, c) // its fields are looked at when it is written
	}

	return c.Core.Check(entry, checked)
}

// Write implements zapcore.Core, for the entries that Check did not leave to the core within.
func (c quietCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	if failures[entry.Message] && !c.Enabled(zapcore.DebugLevel) && slices.ContainsFunc(fields, unwritable) {
		return nil
	}

	return c.Core.Write(entry, fields)
}

// unwritable reports whether a field is the error of a store that can't be written.
func unwritable(field zapcore.Field) bool {
	err, ok := field.Interface.(error)

	return ok && field.Type == zapcore.ErrorType && errors.Is(err, store.ErrUnwritable)
}
