package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/k3s-io/kine/pkg/server"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/replicaset/metrics"
	"k8s.io/kubernetes/pkg/controller/util/consistency"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore/outage"
	"github.com/reap-dev/reap/pkg/etcdlog"
	"github.com/reap-dev/reap/pkg/gc/report"
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

// errAgain is the error of registering a controller's metrics when it starts for the second time in a process.
func errAgain() (err error) {
	for range 2 {
		err = metrics.Register(legacyregistry.Register)
	}
	return err
}

func TestKlogGoesThroughLogrus(t *testing.T) {
	half, again := errHalf(t), errAgain()
	everything := map[string]func(){
		"infof":       func() { klog.Infof("info %d\n", 1) },
		"v2":          func() { klog.V(2).Info("v2") },
		"v5":          func() { klog.V(5).Info("v5") },
		"v9":          func() { klog.V(9).Info("v9") },
		"warning":     func() { klog.Warning("warned] of [it") },
		"errorf":      func() { klog.Errorf("failed") },
		"infoS":       func() { klog.InfoS("info", "after", 2*time.Second) },
		"errorS":      func() { klog.ErrorS(errors.New("cause"), "failed", "object", klog.KRef("ns", "n")) },
		"behind":      func() { klog.ErrorS(errStale, "Unhandled Error") },
		"half a pair": func() { klog.ErrorS(half, "Unhandled Error") },
		"start line":  func() { klog.Errorf("The manifest file is empty, ignoring.") },
		"start error": func() {
			klog.ErrorS(errors.New(`namespaces "kube-system" not found`), "Error while syncing ConfigMap")
		},
		"metrics again": func() { klog.ErrorS(again, "unable to register metrics") },
		"datastore":     func() { klog.ErrorS(errors.New("rpc error: desc = [datastore: unavailable] the"), "Unhandled Error") },
		"datastore's":   func() { klog.ErrorS(errors.New("the database could not be used: it"), "Failed to update lease") },
		"contextual":    func() { klog.Background().WithName("part").V(2).Info("v2") },
		"contextual 5":  func() { klog.Background().WithValues("k", "v").V(5).Info("v5") },
		"contextual 9":  func() { klog.Background().V(9).Info("v9") },
	}
	for level, want := range map[string]map[string]string{
		"error": {},
		"info":  {"errorf": "warning", "errorS": "warning"},
		"debug": {
			"errorf": "warning", "errorS": "warning", "warning": "debug", "behind": "debug", "half a pair": "debug", "start line": "debug",
			"start error": "debug", "metrics again": "debug", "datastore": "debug", "datastore's": "debug",
			"infof": "debug", "v2": "debug", "infoS": "debug", "contextual": "debug",
		},
		"trace": {
			"errorf": "warning", "errorS": "warning", "warning": "debug", "behind": "debug", "half a pair": "debug", "start line": "debug",
			"start error": "debug", "metrics again": "debug", "datastore": "debug", "datastore's": "debug",
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
		{func() { klog.Background().WithName("part").Info("said") }, map[string]any{"msg": "said", "logger": "part", "component": "kubernetes"}},
		{func() { klog.Error("failed") }, map[string]any{"msg": "failed", "component": "kubernetes", "level": "warning"}},
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

// TestKineHasItsComponent: what it tells at a start is debug. That a watch has expired, which it says of each, is no
// error; its other errors are errors.
func TestKineHasItsComponent(t *testing.T) {
	kines := runtime.FuncForPC(reflect.ValueOf(server.New).Pointer()).Name()
	toBeCreated := "failed to check existence of database reap, going to attempt create: "
	expired := "Failed to list /registry/daemonsets/ for revision 199: "
	for _, tc := range []struct {
		level, caller, message string
		is                     logrus.Level
		want                   []any // component and level
	}{
		{"info", kines, "Startup VACUUM is disabled", logrus.InfoLevel, nil},
		{"debug", kines, "Startup VACUUM is disabled", logrus.InfoLevel, []any{"kine", "debug"}},
		{"info", kines, expired + server.ErrCompacted.Error(), logrus.ErrorLevel, nil},
		{"debug", kines, expired + server.ErrCompacted.Error(), logrus.ErrorLevel, []any{"kine", "debug"}},
		{"info", kines, expired + "disk I/O error", logrus.ErrorLevel, []any{"kine", "error"}},
		{"info", kines, toBeCreated + "Error 1049 (42000): Unknown database 'reap'", logrus.WarnLevel, nil},
		{"info", kines, toBeCreated + "Error 1045 (28000): Access denied", logrus.WarnLevel, []any{"kine", "warning"}},
		{"info", kines, "slow query", logrus.WarnLevel, []any{"kine", "warning"}},
		{"info", kines, "error in compact physical:true: disk full", logrus.ErrorLevel, []any{"kine", "error"}},
		{"trace", kines, `error in txn success:{request_put:{key:"/registry/secrets/ns/a" value:"password"}}: disk full`, logrus.ErrorLevel, nil},
		{"trace", kines, `error in put key:"/registry/secrets/ns/a" value:"password": disk full`, logrus.ErrorLevel, nil},
		{"info", "github.com/reap-dev/reap/pkg/gc.Run", "collector is running", logrus.InfoLevel, []any{nil, "info"}},
	} {
		level, err := logrus.ParseLevel(tc.level)
		if err != nil {
			t.Fatal(err)
		}
		text, err := componentFormatter{&logrus.JSONFormatter{}, level, nil, outage.New()}.Format(&logrus.Entry{
			Logger: logrus.StandardLogger(), Data: logrus.Fields{}, Level: tc.is, Message: tc.message,
			Caller: &runtime.Frame{Function: tc.caller},
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []any
		if len(text) > 0 {
			var r map[string]any
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			got = []any{r["component"], r["level"]}
			if r["func"] != nil || r["file"] != nil {
				t.Errorf("%+v: the record names the source: %s", tc, text)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%+v: got %v", tc, got)
		}
	}
}

// TestWarningsAreDebugWhileTheDatastoreIsDown, those of other libraries and of reap: they are consequences. An error of reap
// is shown, and after the outage everything is.
func TestWarningsAreDebugWhileTheDatastoreIsDown(t *testing.T) {
	for level, want := range map[string]int{"info": 1 + 5, "debug": 5 + 5} {
		var out lockedBuffer
		down := outage.New()
		if err := configureLogging(config.Log{Level: level, Format: "json"}, &out, down); err != nil {
			t.Fatal(err)
		}
		others := othersLogger(&out, logrus.StandardLogger().GetLevel())
		for _, isDown := range []bool{true, false} {
			ctx, cancel := context.WithCancel(t.Context())
			asked := make(chan struct{})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = down.Watch(ctx, 0, func(context.Context) error {
					<-asked
					if isDown {
						return errors.New("connection refused")
					}
					return nil
				})
			}()
			for !down.Hold(func(bool) {}) { // until somebody watches
				runtime.Gosched()
			}
			logrus.Warn("of reap")
			logrus.Error("of reap")
			klog.Error("of klog")
			others.WithField(componentField, etcdlog.Component).Error("of etcd's client")
			logrus.WithField(componentField, kineComponent).Error("of kine")
			if n := strings.Count(out.String(), "\n"); isDown && n != 1 {
				t.Errorf("at %s: %d records before the datastore has answered:\n%s", level, n, &out)
			}
			close(asked)
			answered := make(chan struct{})
			if down.Hold(func(bool) { close(answered) }) {
				<-answered
			}
			cancel()
			<-ended
		}
		lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(out.String()), "\n"), func(l string) bool { return strings.Contains(l, "the datastore") })
		if len(lines) != want {
			t.Errorf("at %s: %d records, not %d:\n%s", level, len(lines), want, &out)
		}
	}
}

// TestFatalErrorIsShownAtOnce: nothing is written after it.
func TestFatalErrorIsShownAtOnce(t *testing.T) {
	for _, level := range []string{"error", "info"} {
		var out lockedBuffer
		down := outage.New()
		if err := configureLogging(config.Log{Level: level, Format: "json"}, &out, down); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = down.Watch(ctx, 0, func(ctx context.Context) error { <-ctx.Done(); return nil }) // without a limit
		}()
		for !down.Hold(func(bool) {}) { // until somebody watches
			runtime.Gosched()
		}
		others := othersLogger(&out, logrus.StandardLogger().GetLevel())
		writeKlogLine(others, []byte("F1121 03:02:28.000000    1234 file.go:56] no way out\n"))
		logrus.WithField(componentField, kineComponent).Log(logrus.FatalLevel, "no way out")
		if n := strings.Count(out.String(), `"level":"fatal","msg":"no way out"`); n != 2 {
			t.Errorf("at %s: %d of 2 records: %s", level, n, &out)
		}
		cancel()
		<-ended
	}
}

// TestEtcdClientsLogAsEverythingElse: kube-apiserver's clients of etcd log nothing by themselves to standard error. Each
// failed attempt is debug.
func TestEtcdClientsLogAsEverythingElse(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer() // that knows no method
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	records := logged(t, config.Log{Level: "debug", Format: "json"}, func() {
		storage := storagebackend.NewDefaultConfig("", nil)
		storage.Transport.ServerList = []string{"http://" + listener.Addr().String()}
		prober, err := factory.CreateProber(*storage)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = prober.Close() }() // it has only asked
		if err := prober.Probe(t.Context()); err == nil {
			t.Error("an etcd answers that is none")
		}
	})
	records = slices.DeleteFunc(records, func(r map[string]any) bool { return r["component"] != etcdlog.Component })
	if len(records) == 0 {
		t.Fatal("nothing was logged through logrus")
	}
	for _, r := range records {
		if message, _ := r["msg"].(string); r["level"] != "debug" || message == "" || r["caller"] != nil || r["error"] == nil {
			t.Errorf("logged %v", r)
		}
	}
}

// TestTerminalLogIsForPeople: fields have lines of their own if one line is too short for them.
func TestTerminalLogIsForPeople(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for _, tc := range []struct {
		columns int
		level   logrus.Level
		fields  logrus.Fields
		want    string
	}{
		{80, logrus.InfoLevel, nil, "03:02:01 said\n"},
		{80, logrus.InfoLevel, logrus.Fields{"url": "u", "n": 3}, "03:02:01 said  n=3 url=u\n"},
		{80, logrus.WarnLevel, logrus.Fields{"component": "gc", "n": 3}, "03:02:01 WARNING gc: said  n=3\n"},
		{80, logrus.ErrorLevel, nil, "03:02:01 ERROR said\n"},
		{20, logrus.InfoLevel, logrus.Fields{"url": "u", "n": 3}, "03:02:01 said\n         n    3\n         url  u\n"},
	} {
		f := terminalFormatter{colours: report.Plain, columns: func() int { return tc.columns }}
		got, err := f.Format(&logrus.Entry{Time: at, Level: tc.level, Message: "said", Data: tc.fields})
		if err != nil || string(got) != tc.want {
			t.Errorf("%+v: got %q (%v)", tc, got, err)
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

func configure(t *testing.T, options config.Log, out io.Writer) {
	t.Helper()
	if err := configureLogging(options, out, outage.New()); err != nil {
		t.Fatal(err)
	}
}

// lockedBuffer is a buffer for libraries that log from goroutines of their own.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// logged returns the records that log writes.
func logged(t *testing.T, options config.Log, log func()) []map[string]any {
	t.Helper()
	var out lockedBuffer
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
