package cli

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/k3s-io/kine/pkg/server"
	"github.com/sirupsen/logrus"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/util/consistency"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/pki"
)

// Logging is the process's own, so these tests do not run in parallel.

// errStale is as upstream's controllers wrap it.
var errStale = fmt.Errorf("sync %q failed with %v", "ns/n", &consistency.ConsistencyError{ReadRV: "1", WroteRV: "2"})

// errHalf is as kube-apiserver wraps it.
func errHalf(t *testing.T) error {
	t.Helper()
	f, err := pki.Ensure(t.TempDir(), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = tls.LoadX509KeyPair(f.ServingCert, f.AdminKey)
	return fmt.Errorf("%v failed with : %v", "key", err)
}

func TestKlogGoesThroughLogrus(t *testing.T) {
	half := errHalf(t)
	everything := map[string]func(){
		"infof":        func() { klog.Infof("info %d\n", 1) },
		"v2":           func() { klog.V(2).Info("v2") },
		"v5":           func() { klog.V(5).Info("v5") },
		"v9":           func() { klog.V(9).Info("v9") },
		"warning":      func() { klog.Warning("warned] of [it") },
		"errorf":       func() { klog.Errorf("failed") },
		"infoS":        func() { klog.InfoS("info", "after", 2*time.Second) },
		"errorS":       func() { klog.ErrorS(errors.New("cause"), "failed", "object", klog.KRef("ns", "n")) },
		"behind":       func() { klog.ErrorS(errStale, "Unhandled Error") },
		"half a pair":  func() { klog.ErrorS(half, "Unhandled Error") },
		"contextual":   func() { klog.Background().WithName("part").V(2).Info("v2") },
		"contextual 5": func() { klog.Background().WithValues("k", "v").V(5).Info("v5") },
		"contextual 9": func() { klog.Background().V(9).Info("v9") },
	}
	for level, want := range map[string]map[string]string{
		"error": {},
		"info":  {"errorf": "warning", "errorS": "warning"},
		"debug": {
			"errorf": "warning", "errorS": "warning", "warning": "debug", "behind": "debug", "half a pair": "debug",
			"infof": "debug", "v2": "debug", "infoS": "debug", "contextual": "debug",
		},
		"trace": {
			"errorf": "warning", "errorS": "warning", "warning": "debug", "behind": "debug", "half a pair": "debug",
			"infof": "debug", "v2": "debug", "infoS": "debug", "contextual": "debug",
			// klog's own line does not say its V-level.
			"v5": "debug", "contextual 5": "trace",
		},
	} {
		for _, name := range slices.Sorted(maps.Keys(everything)) {
			records := logged(t, config.Log{Level: level, Format: "json"}, everything[name])
			var got string
			if len(records) > 0 {
				got, _ = records[0]["level"].(string)
			}
			if len(records) > 1 || got != want[name] {
				t.Errorf("at %s, %s: got %v, want level %q", level, name, records, want[name])
			}
		}
	}
}

func TestKlogKeepsMessageAndFields(t *testing.T) {
	for _, tc := range []struct {
		log  func()
		want map[string]any
	}{
		{func() { klog.Warningf("warned] of [%s", "it") }, map[string]any{"msg": "warned] of [it"}},
		{func() { klog.InfoS("waited", "for", 1500*time.Millisecond) }, map[string]any{"msg": "waited", "for": "1.5s"}},
		{
			func() { klog.ErrorS(errors.New("cause"), "failed", "n", 3) },
			map[string]any{"msg": "failed", "error": "cause", "n": 3.0},
		},
		{func() { klog.Background().WithName("part").Info("said") }, map[string]any{"msg": "said", "logger": "part"}},
	} {
		records := logged(t, config.Log{Level: "debug", Format: "json"}, tc.log)
		if len(records) != 1 {
			t.Fatalf("got %v, want one record", records)
		}
		for key, want := range tc.want {
			if got := records[0][key]; got != want {
				t.Errorf("%s is %v, want %v in %v", key, got, want, records[0])
			}
		}
	}
}

// TestExpiredWatchIsNoError: kine says so of each, and its other errors are errors.
func TestExpiredWatchIsNoError(t *testing.T) {
	for _, tc := range []struct {
		level string
		err   error
		want  []any
	}{
		{"info", server.ErrCompacted, nil},
		{"debug", server.ErrCompacted, []any{"debug"}},
		{"info", errors.New("disk I/O error"), []any{"error"}},
	} {
		var got []any
		for _, r := range logged(t, config.Log{Level: tc.level, Format: "json"}, func() {
			logrus.Errorf("Failed to list %s for revision %d: %v", "/registry/daemonsets/", 199, tc.err)
		}) {
			got = append(got, r["level"])
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("at %s, %v: got %v, want %v", tc.level, tc.err, got, tc.want)
		}
	}
}

func TestTextLogHasFullTimestamps(t *testing.T) {
	var out bytes.Buffer
	configure(t, config.Log{Level: "info", Format: "text"}, &out)
	before := time.Now().Truncate(time.Second)
	logrus.WithField("object", "a b").Info("said")
	rest, found := strings.CutPrefix(out.String(), `time="`)
	stamp, rest, _ := strings.Cut(rest, `"`)
	at, err := time.Parse(time.RFC3339, stamp)
	if !found || err != nil || at.Before(before) || rest != " level=info msg=said object=\"a b\"\n" {
		t.Errorf("got %q (%v)", out.String(), err)
	}
}

func configure(t *testing.T, options config.Log, out *bytes.Buffer) {
	t.Helper()
	if err := configureLogging(options, out); err != nil {
		t.Fatal(err)
	}
}

// logged returns the records that log writes.
func logged(t *testing.T, options config.Log, log func()) []map[string]any {
	t.Helper()
	var out bytes.Buffer
	configure(t, options, &out)
	log()
	var records []map[string]any
	for line := range strings.Lines(out.String()) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		records = append(records, r)
	}
	return records
}
