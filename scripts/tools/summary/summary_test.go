package summary

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const passed = `{"Action":"run","Package":"github.com/reap-dev/reap/pkg/a","Test":"TestA"}
{"Action":"attr","Package":"github.com/reap-dev/reap/pkg/a","Test":"TestA","Key":"power","Value":"worlds=3"}
{"Action":"output","Package":"github.com/reap-dev/reap/pkg/a","Test":"TestA","Output":"\"Action\":\"fail\"\n"}
{"Action":"pass","Package":"github.com/reap-dev/reap/pkg/a","Test":"TestA"}
{"Action":"output","Package":"github.com/reap-dev/reap/pkg/a","Output":"ThreadSanitizer: Matched 2 suppressions (pid=1):\n"}
{"Action":"pass","Package":"github.com/reap-dev/reap/pkg/a"}
`

const timed = `{"Time":"2026-11-23T10:00:00Z","Action":"start","Package":"github.com/reap-dev/reap/pkg/t"}
{"Action":"run","Package":"github.com/reap-dev/reap/pkg/t","Test":"TestShort"}
{"Action":"pass","Package":"github.com/reap-dev/reap/pkg/t","Test":"TestShort","Elapsed":2}
{"Action":"run","Package":"github.com/reap-dev/reap/pkg/t","Test":"TestLong"}
{"Action":"run","Package":"github.com/reap-dev/reap/pkg/t","Test":"TestLong/part"}
{"Action":"pass","Package":"github.com/reap-dev/reap/pkg/t","Test":"TestLong/part","Elapsed":59}
{"Action":"pass","Package":"github.com/reap-dev/reap/pkg/t","Test":"TestLong","Elapsed":60}
{"Time":"2026-11-23T10:01:05Z","Action":"pass","Package":"github.com/reap-dev/reap/pkg/t","Elapsed":62}
{"Action":"pass","Package":"github.com/reap-dev/reap/pkg/u","Elapsed":0.1}
{"Time":"2026-11-23T10:01:10Z","Action":"pass","Package":"github.com/reap-dev/reap/pkg/v","Elapsed":70}
`

const skipped = `{"Action":"run","Package":"github.com/reap-dev/reap/pkg/b","Test":"TestB"}
{"Action":"output","Package":"github.com/reap-dev/reap/pkg/b","Test":"TestB","Output":"    b_test.go:1: no fish\n"}
{"Action":"output","Package":"github.com/reap-dev/reap/pkg/b","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"github.com/reap-dev/reap/pkg/b","Test":"TestB"}
{"Action":"pass","Package":"github.com/reap-dev/reap/pkg/b"}
`

const failed = `{"Action":"run","Package":"github.com/reap-dev/reap/pkg/c","Test":"TestC"}
{"Action":"fail","Package":"github.com/reap-dev/reap/pkg/c","Test":"TestC"}
{"Action":"fail","Package":"github.com/reap-dev/reap/pkg/c"}
`

const builtNot = `{"Action":"output","Package":"github.com/reap-dev/reap/pkg/d","Output":"FAIL pkg/d [build failed]\n"}
{"Action":"fail","Package":"github.com/reap-dev/reap/pkg/d"}
`

const timedOut = `{"Action":"run","Package":"github.com/reap-dev/reap/pkg/e","Test":"TestE"}
{"Action":"output","Package":"github.com/reap-dev/reap/pkg/e","Test":"TestE","Output":"panic: test timed out after 3s\n"}
{"Action":"fail","Package":"github.com/reap-dev/reap/pkg/e"}
`

// A run that was stopped leaves half a line.
const endedRun = `{"Action":"run","Package":"github.com/reap-dev/reap/pkg/f","Test":"TestF"}
{"Action":"pass","Package":"github.com/rea`

const empty = `{"Action":"start","Package":"github.com/reap-dev/reap/pkg/g"}
{"Action":"output","Package":"github.com/reap-dev/reap/pkg/g","Output":"ok  \tpkg/g\t0.1s [no tests to run]\n"}
{"Action":"pass","Package":"github.com/reap-dev/reap/pkg/g","Elapsed":0.1}
`

func TestSummary(t *testing.T) {
	for _, test := range []struct {
		name     string
		events   string
		skips    string
		missing  string
		strict   bool
		complete bool
		code     int
		says     []string
	}{
		{name: "passed", events: passed, strict: true, says: []string{
			"size: gate", "tried: pkg/a TestA (race, short): worlds=3", "tried: races passed over: 5", "1 passed, 0 failed, 0 flaky, 0 skipped"}},
		{name: "skipped", events: passed + skipped, says: []string{
			"skipped: pkg/b TestB (race, short): b_test.go:1: no fish", "1 passed, 0 failed, 0 flaky, 1 skipped"}},
		{name: "skipped though it may not be", events: passed + skipped, strict: true, code: 1, says: []string{"1 skipped or not installed"}},
		{name: "skipped as it may be", events: passed + skipped, skips: "# may\npkg/b TestB there is no fish\n", strict: true, says: []string{
			"skipped, as listed: pkg/b TestB"}},
		{name: "not installed", events: passed, missing: " fish zsh", says: []string{"not installed: fish", "not installed: zsh"}},
		{name: "not installed though it has to be", events: passed, missing: " fish", strict: true, code: 1},
		{name: "failed", events: passed + failed, code: 1, says: []string{"failed: pkg/c TestC (race, short)\n", "1 passed, 1 failed, 0 flaky, 0 skipped"}},
		{name: "not built", events: passed + builtNot, code: 1, says: []string{"failed: pkg/d (race, short): FAIL pkg/d [build failed]", "1 passed, 1 failed"}},
		{name: "timed out", events: passed + timedOut, code: 1, says: []string{"failed: pkg/e TestE (race, short): it did not end", "1 passed, 1 failed"}},
		{name: "ended", events: passed + endedRun, code: 1, says: []string{"failed: pkg/f TestF (race, short): it did not end", "1 passed, 1 failed"}},
		{name: "timed", events: timed, says: []string{
			"took: 1m10s race, short: 1m10s pkg/v, 1m2s pkg/t\ntook: 1m30s in all, with ", "longest: 1m0s pkg/t TestLong (race, short)\nlongest: 2s pkg/t TestShort (race, short)\n"}},
		{name: "nothing ran", code: 1, says: []string{"failed: the run (race, short): no package has ended\n", "0 passed, 1 failed, 0 flaky, 0 skipped"}},
		{name: "go test said nothing of use", events: "go: updates to go.mod needed\n", code: 1, says: []string{"no package has ended"}},
		{name: "without a test", events: empty, code: 3, says: []string{"no test ran to its end", "0 passed, 0 failed, 0 flaky, 0 skipped"}},
		{name: "without a test that it has to have", events: empty, complete: true, code: 1, says: []string{"failed: the run (race, short): no test has run\n"}},
		{name: "with a test", events: empty + passed, complete: true, says: []string{"1 passed, 0 failed, 0 flaky, 0 skipped"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, content string) string {
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			}
			events, skips := write("events-race-short.json", test.events), write("skips", test.skips)
			write("server.log", "started\nThreadSanitizer: Matched 3 suppressions (pid=2):\n")
			var out bytes.Buffer
			code, err := Write(&out, Options{Strict: test.strict, Complete: test.complete, Skips: skips, Missing: test.missing, Size: "gate", Logs: dir, Took: 90 * time.Second}, []string{events})
			if err != nil {
				t.Fatal(err)
			}
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			for _, line := range test.says {
				if !strings.Contains(out.String(), line) {
					t.Errorf("the summary does not say %q:\n%s", line, &out)
				}
			}
		})
	}
}

func TestListOfSkipsNeedsReasons(t *testing.T) {
	file := filepath.Join(t.TempDir(), "skips")
	if err := os.WriteFile(file, []byte("pkg/b TestB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readSkips(file); err == nil {
		t.Error("a skip without a reason is accepted")
	}
}
