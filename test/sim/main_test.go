package sim

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain has garbage collected four times as rarely: a seed makes much and keeps little, and a quarter of its time went into that.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
