package integration

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// logfmt takes apart what a test needs of a record.
var logfmt = regexp.MustCompile(`^time="[^"]*" level=(\w+) msg=("(?:[^"\\]|\\.)*"|\S+)(.*)$`)

// TestFirstStartIsQuiet: it says what runs where, what is off, and what to do next, and nothing else. On a busy machine
// some part may be late and say so: what each of several first starts says does not come from that.
func TestFirstStartIsQuiet(t *testing.T) {
	t.Parallel()
	var always []string
	for attempt := range 3 {
		more := firstStart(t)
		if attempt == 0 {
			always = more
		}
		always = slices.DeleteFunc(always, func(w string) bool { return !slices.Contains(more, w) })
		if len(always) == 0 {
			return
		}
	}
	t.Errorf("each first start also says:\n%s", strings.Join(always, "\n"))
}

// firstStart starts a server on a new data directory, checks what it tells, and returns what else it says.
func firstStart(t *testing.T) (more []string) {
	t.Helper()
	s := newServer(t.TempDir(), "--disable", "cronjob")
	s.start(t)
	var log string
	await(t, "the end of the start", func(context.Context) (bool, any) {
		begun, rest, ready := strings.Cut(string(s.logFrom(0)), `msg="reap is ready"`)
		fields, _, all := strings.Cut(rest, "\n")
		log = begun + `msg="reap is ready"` + fields
		return ready && all, log
	})
	s.stop(t)
	told := map[string]string{}
	for line := range strings.Lines(log) {
		m := logfmt.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		switch {
		case m == nil:
			t.Errorf("no record: %q", line)
		case m[1] != "info":
			more = append(more, m[2])
		default:
			told[strings.Trim(m[2], `"`)] = m[3] + " "
		}
	}
	for message, fields := range map[string][]string{
		"reap is starting":        {" version=", " kubernetes=v", " data=" + s.dir + " ", " datastore=sqlite ", " off=cronjob "},
		"controllers are running": {" controllers="},
		"collector is running":    {" workers="},
		"reap is ready":           {s.URL, " kubeconfig=" + s.Kubeconfig + " ", " took=", ` next="reap kubectl --kubeconfig `},
	} {
		got, is := told[message]
		if !is {
			t.Errorf("the log does not say %q", message)
		}
		for _, f := range fields {
			if !strings.Contains(got, f) {
				t.Errorf("%q has no %q: %s", message, f, got)
			}
		}
		delete(told, message)
	}
	return slices.AppendSeq(more, maps.Keys(told))
}
