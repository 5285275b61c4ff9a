package integration

import (
	"bytes"
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/tests/databases"
)

// logfmt takes apart what a test needs of a record.
var logfmt = regexp.MustCompile(`^time="[^"]*" level=(\w+) msg=("(?:[^"\\]|\\.)*"|\S+)(.*)$`)

// numbers are of ports and processes in messages, and differ from start to start.
var numbers = regexp.MustCompile(`\d+`)

// lateCommits tells users of a datastore that gives revisions before it commits.
const lateCommits = "lists of this datastore may lack a write that commits late; where controllers must see every object at once, use etcd"

// TestFirstStartIsQuiet: on each datastore, a first start says what runs where, what is off, and what to do next, and
// nothing else. On a busy machine some part may be late and log it, but not the same part each time:
// the test fails only if several first starts log the same line.
func TestFirstStartIsQuiet(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) (*databases.Server, string){
		"data directory": nil, "postgres": databases.Postgres, "mysql": databases.MariaDB, "etcd": databases.Etcd,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if open != nil && testing.Short() {
				t.Skip("needs the database")
			}
			var always []string
			for attempt := range 3 {
				var endpoint []string
				datastore := engineName()
				if open != nil {
					_, url := open(t)
					datastore, endpoint = name, []string{"--datastore-endpoint", url}
				}
				more := firstStart(t, datastore, endpoint...)
				if attempt == 0 {
					always = more
				}
				always = slices.DeleteFunc(always, func(w string) bool { return !slices.Contains(more, w) })
				if len(always) == 0 {
					return
				}
			}
			t.Errorf("each first start also logs:\n%s", strings.Join(always, "\n"))
		})
	}
}

// firstStart starts a server on a new data directory, checks what it logs until it is ready and collects, and returns what
// else it logs.
func firstStart(t *testing.T, datastore string, endpoint ...string) (more []string) {
	t.Helper()
	s := newServer(t.TempDir(), append(endpoint, "--disable", "cronjob")...)
	s.start(t)
	want := map[string][]string{
		"reap is starting":        {" version=", " kubernetes=v", " data=" + s.dir + " ", " datastore=" + datastore + " ", " off=cronjob "},
		"controllers are running": {" controllers="},
		"collector is running":    {" workers="},
		"reap is ready":           {s.URL, " kubeconfig=" + s.Kubeconfig + " ", " took=", ` next="reap kubectl --kubeconfig `},
	}
	if len(endpoint) > 0 { // which other servers may use too
		want["waiting to lead"], want["leading"] = nil, nil
		if datastore != "etcd" {
			want[lateCommits] = []string{" datastore=" + datastore + " "}
		}
	} else {
		want["the data directory is new"] = []string{" datastore=" + datastore, ` durability="each write is synced before it is acknowledged"`}
	}
	var log string
	// The parts start side by side: any of these may be the last.
	await(t, "the log of the start", func(context.Context) (bool, any) {
		raw := s.logFrom(0)
		log = string(raw[:bytes.LastIndexByte(raw, '\n')+1]) // its whole lines
		for message := range want {
			if !said(log, message) {
				return false, log
			}
		}
		return true, nil
	})
	leases, err := s.kube.CoordinationV1().Leases(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases.Items {
		if len(endpoint) == 0 || l.Name != "kube-controller-manager" {
			t.Errorf("lease %s/%s is kept, and nobody reads it", l.Namespace, l.Name)
		}
	}
	warnings, err := s.kube.CoreV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{FieldSelector: "type=Warning"})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings.Items {
		t.Errorf("a first start warns: %s %s/%s: %s", w.Reason, w.InvolvedObject.Kind, w.InvolvedObject.Name, w.Message)
	}
	s.stop(t)
	told := map[string]string{}
	for line := range strings.Lines(log) {
		m := logfmt.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		switch {
		case m == nil:
			t.Errorf("no record: %q", line)
		case m[1] != "info":
			more = append(more, numbers.ReplaceAllString(m[2]+m[3], "#"))
		default:
			told[strings.Trim(m[2], `"`)] = m[3] + " "
		}
	}
	for message, fields := range want {
		for _, f := range fields {
			if !strings.Contains(told[message], f) {
				t.Errorf("%q has no %q: %s", message, f, told[message])
			}
		}
		delete(told, message)
	}
	delete(told, "collector is reading what exists") // said if that takes its time, as on a busy machine
	return slices.AppendSeq(more, maps.Keys(told))
}

// said reports whether a log has a record with a message, at any level.
func said(log, message string) bool {
	for line := range strings.Lines(log) {
		if m := logfmt.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil && strings.Trim(m[2], `"`) == message {
			return true
		}
	}
	return false
}
