package pki

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestContentsMakeTheSameAuthorities(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "pki"), filepath.Join(t.TempDir(), "pki")
	if _, err := Ensure(from, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := Contents(from)
	if err != nil {
		t.Fatal(err)
	}
	if _, there := files["notes.txt"]; there || len(files) != 13 {
		t.Errorf("%d files", len(files))
	}
	if err := Fill(to, files); err != nil {
		t.Fatal(err)
	}
	if _, err := Ensure(to, Options{}); err != nil {
		t.Fatal(err)
	}
	// Ensure has found nothing to do.
	again, err := Contents(to)
	if err != nil || !maps.EqualFunc(files, again, func(a, b []byte) bool { return string(a) == string(b) }) {
		t.Errorf("the files are others (%v)", err)
	}
	for name := range files {
		want := os.FileMode(0o600)
		if strings.HasSuffix(name, ".crt") {
			want = 0o644
		}
		info, err := os.Stat(filepath.Join(to, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: mode %v (%v)", name, info.Mode(), err)
		}
	}
}

func TestFillWritesNowhereElse(t *testing.T) {
	for _, name := range []string{"../serving.key", "/serving.key", "sub/serving.key", ".key", "..", "passwd", ""} {
		dir := filepath.Join(t.TempDir(), "pki")
		if err := Fill(dir, map[string][]byte{"admin.key": nil, name: nil}); err == nil {
			t.Errorf("%q is written", name)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%q: something is written", name)
		}
	}
}
