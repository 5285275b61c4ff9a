package model

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain makes the Go collector run less often: worlds are small and made by the million.
func TestMain(m *testing.M) {
	debug.SetGCPercent(1000)
	os.Exit(m.Run())
}
