package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestUnchangedIsSmoked: with changes in the last tag, some commits ago, in the work tree, and in files that git does not have yet.
func TestUnchangedIsSmoked(t *testing.T) {
	root := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rows := []row{{Name: "a", Smoke: "TestA", Changed: []string{"a"}}, {Name: "b", Smoke: "TestB", Changed: []string{"b"}}, {Name: "c", Run: "TestC"}}
	want := func(when string, smoked ...string) {
		t.Helper()
		left, got, err := smoke(rows, changedIn(root))
		if err != nil || !slices.Equal(got, smoked) {
			t.Errorf("%s: smoked are %q (%v), want %q", when, got, err, smoked)
		}
		for i, r := range left {
			if (r.Run == r.Smoke) != slices.Contains(smoked, r.Name) || i == 2 && r.Run != "TestC" {
				t.Errorf("%s: the tests of %s are %q", when, r.Name, r.Run)
			}
		}
	}
	git("init", "-q")
	write("a", "1")
	write("b", "1")
	git("add", ".")
	git("commit", "-qm", "first")
	want("without a history")
	for range history {
		git("commit", "-qm", "nothing", "--allow-empty")
	}
	want("unchanged", "a", "b")
	write("a", "2")
	want("in the work tree", "b")
	git("commit", "-qam", "a")
	want("in a commit", "b")
	git("tag", "v1")
	want("after a tag", "a", "b")
	git("rm", "-q", "--cached", "b")
	git("commit", "-qm", "gone")
	want("removed", "a")
}
