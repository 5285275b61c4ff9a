package envtest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// binary is this test's program, which has the module's build information as reap has.
func binary(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func noLinks(string, string) error { return errors.New("no links here") }

// content returns what each name in a folder leads to: a link's target, or "copy" for a copy of the binary.
func content(t *testing.T, dir, binary string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if target, err := os.Readlink(path); err == nil {
			found[e.Name()] = target
			continue
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		found[e.Name()] = "another file"
		if string(raw) == string(own) && info.Mode().Perm()&0o111 == 0o111 {
			found[e.Name()] = "copy"
		}
	}
	return found
}

func TestMakesAndMakesAnew(t *testing.T) {
	self := binary(t)
	for _, tc := range []struct {
		name   string
		maker  maker
		before func(path string) error
		want   string
		copied []string
	}{
		{"nothing there", maker{os.Symlink}, nil, self, nil},
		{"no links", maker{noLinks}, nil, "copy", Programs},
		{"links of its own", maker{os.Symlink}, func(path string) error { return os.Symlink(self, path) }, self, nil},
		{"links to a removed one", maker{os.Symlink}, func(path string) error { return os.Symlink("/nowhere/reap", path) }, self, nil},
		{"copies of its own", maker{os.Symlink}, func(path string) error { return copyProgram(path, self) }, self, nil},
		{"a run that was cut short", maker{noLinks}, func(path string) error { return os.WriteFile(path+".new", []byte("half"), 0o755) }, "copy", Programs},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "deep", "assets")
			if tc.before != nil {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				for _, name := range Programs {
					if err := tc.before(filepath.Join(dir, name)); err != nil {
						t.Fatal(err)
					}
				}
			}
			f, err := tc.maker.make(dir, self)
			if err != nil {
				t.Fatal(err)
			}
			if f.Dir != dir || f.Binary != self || !slices.Equal(f.Copied, tc.copied) {
				t.Errorf("got %+v", f)
			}
			got := content(t, dir, self)
			for _, name := range Programs {
				if got[name] != tc.want {
					t.Errorf("%s: got %q, want %q", name, got[name], tc.want)
				}
			}
			if len(got) != len(Programs) {
				t.Errorf("the folder holds %v", got)
			}
		})
	}
}

// A folder with the real programs, or with anything else by their names, stays as it is.
func TestKeepsOtherPrograms(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Make(dir, binary(t))
	if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "kubectl")+" exists and is not reap") {
		t.Errorf("got the error %v", err)
	}
	if got := content(t, dir, binary(t)); len(got) != 1 || got["kubectl"] != "another file" {
		t.Errorf("the folder holds %v", got)
	}
}

func TestRelativeFoldersBecomeAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	f, err := Make("assets", binary(t))
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(f.Dir) || filepath.Base(f.Dir) != "assets" {
		t.Errorf("got %q", f.Dir)
	}
}
