package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNewerFormatIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := CheckFormat(dir); err != nil {
		t.Errorf("a data directory from before the file: %v", err)
	}
	if err := writeFormat(dir, "v1"); err != nil {
		t.Fatal(err)
	}
	if err := CheckFormat(dir); err != nil {
		t.Errorf("this build's own format: %v", err)
	}
	if err := writeRecord(formatFile(dir), layout{format + 1, "v9.9.9"}); err != nil {
		t.Fatal(err)
	}
	err := CheckFormat(dir)
	if err == nil || !strings.Contains(err.Error(), "v9.9.9") || !strings.Contains(err.Error(), dir) {
		t.Errorf("a newer build's: %v", err)
	}
	if err := os.WriteFile(formatFile(dir), []byte(`{"format": 2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "a newer reap wrote the data directory " + dir + " in format 2, and this build knows formats up to 1: " +
		"install the newest version, or restore a snapshot with 'reap snapshot restore'"
	if err := CheckFormat(dir); err == nil || err.Error() != want {
		t.Errorf("a newer build's that does not say its version: %v", err)
	}
	// A snapshot is how to go back to an older build.
	restore(t, dir, aSnapshot(t, nil))
	if err := CheckFormat(dir); err != nil {
		t.Errorf("after a restore: %v", err)
	}
}

// TestDamagedFormatIsRefused: it is not taken for the oldest format, and not overwritten.
func TestDamagedFormatIsRefused(t *testing.T) {
	for _, content := range []string{"", "garbage", "null", "{}", `{"format": 0}`, `{"format": -1, "version": "v1"}`, `{"format": "1"}`, `{"format": 1`} {
		dir := t.TempDir()
		if err := os.WriteFile(formatFile(dir), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		err := CheckFormat(dir)
		if err == nil || !strings.Contains(err.Error(), formatFile(dir)) || !strings.Contains(err.Error(), "reap db check") {
			t.Errorf("%q: %v", content, err)
		}
		if raw, err := os.ReadFile(formatFile(dir)); err != nil || string(raw) != content {
			t.Errorf("%q became %q (%v)", content, raw, err)
		}
	}
}

// The file says who began with this format, not who started last.
func TestFormatIsWrittenOnce(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"first", "second"} {
		if err := writeFormat(dir, version); err != nil {
			t.Fatal(err)
		}
	}
	if raw, err := os.ReadFile(formatFile(dir)); err != nil || !strings.Contains(string(raw), "first") {
		t.Errorf("%s, %v", raw, err)
	}
	if err := writeFormat(filepath.Join(dir, "missing"), "third"); err == nil || !strings.Contains(err.Error(), "format.json") {
		t.Errorf("where nothing can be written: %v", err)
	}
}
