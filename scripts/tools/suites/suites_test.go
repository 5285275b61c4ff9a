package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reap-dev/reap/scripts/tools/summary"
)

// tried writes a module with a package of each name and tests all, with a table that proves some, and returns the summary.
func tried(t *testing.T, proofs []string, sources map[string]string) (code int, text, shown string) {
	t.Helper()
	path, err := exec.Command("go", "tool", "-n", "gotestsum").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	write := func(name, content string) {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module github.com/reap-dev/reap\n\ngo 1.26.0\n")
	write("tests/skips", "")
	write("tests/race.suppressions", "")
	write("failed/logs/x", "")
	rows := []row{{Name: "all", Lane: "all"}}
	for name, source := range sources {
		write(name+"/x_test.go", "package x\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Stat\n\n"+source)
		rows[0].Packages = append(rows[0].Packages, name)
		rows[0].Race = rows[0].Race || strings.Contains(source, races)
	}
	var out, errs bytes.Buffer
	r := &runner{root: root, failures: filepath.Join(root, "failed"), gotestsum: strings.TrimSpace(string(path)),
		screen: &screen{out: &errs, terminal: -1, rows: map[string]*state{}}}
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -mod=mod") // the same packages as those of the scripts
	r.lanes(t.Context(), rows)
	failed, err := summary.Failures(r.files)
	if err != nil || len(r.errs) > 0 {
		t.Fatal(err, r.errs)
	}
	flaky, err := r.repeat(t.Context(), table{Proofs: proofs}, rows, failed)
	if err != nil {
		t.Fatal(err)
	}
	code, err = summary.Write(&out, summary.Options{Strict: true, Skips: filepath.Join(root, "tests", "skips"), Complete: true, Flaky: flaky, Forgiven: forgiven}, r.files)
	if err != nil {
		t.Fatal(err)
	}
	return code, out.String(), errs.String()
}

// once is a test that fails the first time.
func once(name string) string {
	return "func Test" + name + "(t *testing.T) {\n\tif _, err := os.Stat(\"" + name + "\"); err != nil {\n\t\t_ = os.WriteFile(\"" + name + "\", nil, 0o600)\n\t\tt.Fatal(\"it was too early\")\n\t}\n}\n"
}

const (
	passes = "func TestPasses(*testing.T) {}\n"
	fails  = "func TestFails(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { t.Error(\"it is wrong\") }) }\n"
	// races once only, as real ones do
	races = "func TestRaces(t *testing.T) {\n\tif _, err := os.Stat(\"raced\"); err == nil {\n\t\treturn\n\t}\n\t_ = os.WriteFile(\"raced\", nil, 0o600)\n" +
		"\tn, done := 0, make(chan struct{})\n\tgo func() { n++; close(done) }()\n\tn++\n\t<-done\n}\n"
)

// TestFlakyIsNotBroken, and is not forgotten.
func TestFlakyIsNotBroken(t *testing.T) {
	code, text, shown := tried(t, nil, map[string]string{"a": passes + once("Flaky")})
	if code != 0 || !strings.Contains(text, "flaky: a TestFlaky (all): x_test.go:14: it was too early\n1 passed, 0 failed, 1 flaky, 0 skipped\n") {
		t.Errorf("code %d:\n%s", code, text)
	}
	if !strings.Contains(shown, "=== FAIL: a TestFlaky (all, ") || !strings.Contains(shown, "repeat it with: ./scripts/test TestFlaky\n") {
		t.Errorf("shown was\n%s", shown)
	}
}

// TestNeverForgiven: what fails again, a data race, a proof, a package that does not compile, and more than three flaky tests.
func TestNeverForgiven(t *testing.T) {
	for want, sources := range map[string]map[string]string{
		"failed: a TestFails/sub (all): x_test.go:11: it is wrong\n": {"a": passes + fails},
		"failed: a TestRaces (all)":                                  {"a": passes + races},
		"failed: proof TestFlaky (all)":                              {"proof": passes + once("Flaky")},
		"failed: a (all): ":                                          {"a": "func TestNo(t *testing.T) { x := 1 }\n", "b": passes},
		"4 flaky tests are more than the 3 that a run forgives\n1 passed, 0 failed, 4 flaky": {"a": passes + once("A") + once("B"), "b": once("C") + once("D")},
		"2 passed, 7 failed, 0 flaky": {"a": passes + once("A") + once("B") + once("C") + once("D"), "b": passes + once("E") + once("F") + once("G")},
	} {
		if code, text, _ := tried(t, []string{"proof"}, sources); code != 1 || !strings.Contains(text, want) {
			t.Errorf("code %d, want %q:\n%s", code, want, text)
		}
	}
}

// TestStopEndsAllProcesses, those too whose parents end at once, and those that do not listen.
func TestStopEndsAllProcesses(t *testing.T) {
	if name := os.Getenv("REAP_STOP_IN"); name != "" {
		child := exec.Command("sh", "-c", "trap '' TERM; echo $$ > "+name+"; while :; do sleep 0.1; done")
		child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		for { // until the child listens to nothing any more
			if raw, err := os.ReadFile(name); err == nil && bytes.HasSuffix(raw, []byte("\n")) {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		began := time.Now()
		stopAll()
		if took := time.Since(began); took < stopWithin {
			t.Errorf("it was killed after %s", took)
		}
		return
	}
	name := filepath.Join(t.TempDir(), "pid")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestStopEndsAllProcesses$")
	cmd.Env = append(os.Environ(), "REAP_STOP_IN="+name)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	stat, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if len(stat) > 0 && !bytes.Contains(stat, []byte(") Z ")) {
		t.Errorf("process %d is still there: %s", pid, stat)
	}
}

// TestLanes: a row with "after" begins when all of the other lane has ended.
func TestLanes(t *testing.T) {
	r := &runner{root: t.TempDir(), failures: t.TempDir(), gotestsum: "/bin/false", screen: &screen{out: io.Discard, terminal: -1, rows: map[string]*state{}}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r.lanes(ctx, []row{{Name: "c", Lane: "late", After: "b"}, {Name: "a", Lane: "a"}, {Name: "b1", Lane: "b"}, {Name: "b2", Lane: "b"}})
	if ctx.Err() != nil || len(r.files) != 4 || filepath.Base(r.files[3]) != "events-c.json" {
		t.Errorf("the rows began in the order %q (%v)", r.files, r.errs)
	}
}

// TestLastLineSaysWhatRuns on a terminal.
func TestLastLineSaysWhatRuns(t *testing.T) {
	start := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	s := &screen{out: io.Discard, terminal: -1, start: start, rows: map[string]*state{
		"race":    {done: 7, running: map[string]time.Time{"TestB": start.Add(time.Minute), "TestA": start.Add(time.Second)}},
		"servers": {done: 2, running: map[string]time.Time{}},
	}}
	if got, want := s.line(start.Add(2*time.Minute)), "2m0s  race 7 (TestA 1m59s)  servers 2"; got != want {
		t.Errorf("the line is %q, want %q", got, want)
	}
}
