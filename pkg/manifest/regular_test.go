package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOnlyRegularFilesAreRead: a FIFO, a link to a device and a file that is too large are refused at once.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	fifo, zero, large := filepath.Join(dir, "fifo.yaml"), filepath.Join(dir, "zero.yaml"), filepath.Join(dir, "large.yaml")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", zero); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, MaxSize+1); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{fifo: "not a regular file", zero: "not a regular file", large: "more than 256 MiB"} {
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// TestErrorsShowNoContent: a Secret without kind is refused, and its data stays out of the error.
func TestErrorsShowNoContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret.yaml")
	if err := os.WriteFile(path, []byte("apiVersion: v1\nstringData: {password: hunter2}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "'Kind' is missing") {
		t.Errorf("%v", err)
	}
}

// TestNumbersAsKeys: numbers are keys as kubectl reads them.
func TestNumbersAsKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ports.yaml")
	if err := os.WriteFile(path, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {22: \"default/shell:22\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if data, _ := f.Objects[0].Object["data"].(map[string]any); data["22"] != "default/shell:22" {
		t.Errorf("%v", f.Objects[0].Object)
	}
}
