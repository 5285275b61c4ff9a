package controllers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

const patience = 20 * time.Second

// world is an API server with nothing in it.
type world struct {
	// answer holds the answer to every read of a resource; may be nil.
	answer func(ctx context.Context, resource string) *http.Response

	// lists holds one object per resource. Other resources have no objects.
	lists map[string]string

	mu     sync.Mutex
	listed []string
}

// discovered is the answer to the only request that the namespace controller sends when it is created.
var discovered = map[string]string{
	"/api":    `{"kind":"APIVersions","versions":["v1"]}`,
	"/apis":   `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
	"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","namespaced":true,"kind":"Pod","verbs":["list"]}]}`,
}

func (w *world) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_ = req.Body.Close() // nobody reads it
	}
	if d, ok := discovered[req.URL.Path]; ok {
		return response(http.StatusOK, d), nil
	}
	resource := path.Base(req.URL.Path)
	if req.URL.Query().Get("sendInitialEvents") != "" {
		return response(http.StatusUnprocessableEntity, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`), nil
	}
	if w.answer != nil {
		if r := w.answer(req.Context(), resource); r != nil {
			return r, nil
		}
		if err := req.Context().Err(); err != nil {
			return nil, err
		}
	}
	if req.URL.Query().Get("watch") != "" {
		r := response(http.StatusOK, "")
		r.Body = io.NopCloser(silence{req.Context()})
		return r, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listed = append(w.listed, resource)
	return response(http.StatusOK, `{"metadata":{"resourceVersion":"1"},"items":[`+w.lists[resource]+`]}`), nil
}

func response(code int, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": []string{"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}

// silence is a watch on which nothing happens.
type silence struct{ ctx context.Context }

func (s silence) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func (w *world) options(timeout time.Duration, only ...string) Options {
	log := logrus.New()
	log.SetOutput(io.Discard)
	config := &rest.Config{Host: "http://in-process.invalid", Transport: w, QPS: -1}
	return Options{
		ConfigFor:      func(string) *rest.Config { return config },
		ManagerConfig:  config,
		InformerConfig: config,
		Failures:       &Failures{},
		Disabled:       func(name string) bool { return len(only) > 0 && !slices.Contains(only, name) },
		StartTimeout:   timeout,
		Log:            logrus.NewEntry(log),
	}
}

// runUntilRunning runs controllers, cancels them once they run, and returns Run's error.
func runUntilRunning(t *testing.T, o Options) (ran bool, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("they did not end"))
	defer cancel()
	err = Run(ctx, o, func() { ran = true; cancel() })
	if !ran && ctx.Err() != nil {
		t.Fatal(context.Cause(ctx))
	}
	return ran, err
}

// mustLeaveNothing checks that as many goroutines run as before.
func mustLeaveNothing(t *testing.T, before int) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		return runtime.NumGoroutine() <= before, nil
	})
	if err != nil {
		stacks := make([]byte, 1<<20)
		t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
	}
}

func TestNothingRunsOnAfterTheEnd(t *testing.T) {
	w := &world{}
	for range 3 { // the first starts what the process keeps
		before := runtime.NumGoroutine()
		if ran, err := runUntilRunning(t, w.options(patience)); !ran || err != nil {
			t.Fatalf("ran: %t, error: %v", ran, err)
		}
		if t.Failed() {
			return
		}
		mustLeaveNothing(t, before)
	}
}

// Each resource is listed once, even if several controllers share it.
func TestOnlyNeededResourcesAreListed(t *testing.T) {
	for _, tc := range []struct{ only, want []string }{
		{nil, []string{"certificatesigningrequests", "clusterroles", "configmaps", "controllerrevisions", "cronjobs", "daemonsets",
			"deployments", "endpoints", "endpointslices", "jobs", "namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes",
			"poddisruptionbudgets", "pods", "replicasets", "replicationcontrollers", "resourceclaims", "resourceclaimtemplates",
			"resourcequotas", "secrets", "serviceaccounts", "services", "statefulsets", "storageclasses",
			"validatingadmissionpolicies", "volumeattributesclasses"}},
		{[]string{"ttl-after-finished"}, []string{"jobs"}},
		{[]string{"deployment", "replicaset"}, []string{"deployments", "pods", "replicasets"}},
		{[]string{"none"}, nil},
	} {
		w := &world{}
		if ran, err := runUntilRunning(t, w.options(patience, tc.only...)); !ran || err != nil {
			t.Fatalf("ran: %t, error: %v", ran, err)
		}
		slices.Sort(w.listed)
		if !slices.Equal(w.listed, tc.want) {
			t.Errorf("with only %q, these are listed: %q", tc.only, w.listed)
		}
	}
}

// TestHeldControllersWait runs a held controller beside one that deletes nothing. The latter creates a service account;
// the held one deletes a Job, but only after its release.
func TestHeldControllersWait(t *testing.T) {
	before := runtime.NumGoroutine()
	calls := make(chan string, 100)
	const (
		expired = `{"metadata":{"name":"expired","namespace":"default","resourceVersion":"1","uid":"u"},"spec":{"ttlSecondsAfterFinished":0},` +
			`"status":{"conditions":[{"type":"Complete","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
		there = `{"metadata":{"name":"there","resourceVersion":"1","uid":"v"},"status":{"phase":"Active"}}`
	)
	w := &world{answer: func(ctx context.Context, resource string) *http.Response {
		select {
		case calls <- resource:
		case <-ctx.Done():
		}
		return nil
	}}
	w.lists = map[string]string{"jobs": expired, "namespaces": there}
	release := make(chan struct{})
	o := w.options(time.Minute, "ttl-after-finished", "serviceaccount")
	o.Released = release
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("they did not end"))
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o, func() {}) }()
	// await waits for n calls, and fails the test if it sees the other controller's call before.
	await := func(wanted string, times int, never string) {
		t.Helper()
		for times > 0 {
			select {
			case c := <-calls:
				if c == wanted {
					times--
				}
				if c == never {
					t.Errorf("a held controller asks for %s", c)
				}
			case <-ctx.Done():
				t.Fatalf("waiting for %s: %v", wanted, context.Cause(ctx))
			}
		}
	}
	await("serviceaccounts", 3, "expired") // a list, a watch and a write
	close(release)
	await("expired", 1, "")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	mustLeaveNothing(t, before)
}

func TestControllerThatCannotStartIsNamed(t *testing.T) {
	hangs := func(ctx context.Context, resource string) *http.Response {
		if resource == "cronjobs" {
			<-ctx.Done()
		}
		return nil
	}
	says := func(code int, reason string) func(context.Context, string) *http.Response {
		return func(_ context.Context, resource string) *http.Response {
			if resource == "jobs" {
				return response(code, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"`+reason+`","message":"`+reason+` it is"}`)
			}
			return nil
		}
	}
	const within = 10 * time.Second // long enough for all lists that are answered, also on a busy machine
	for name, tc := range map[string]struct {
		answer func(context.Context, string) *http.Response
		within time.Duration
		says   []string
	}{
		"no answer":        {hangs, within, []string{"starting cronjob,", "CronJob", "no list within 10s"}},
		"API off":          {says(http.StatusNotFound, "NotFound"), patience, []string{"starting job, cronjob, ttl-after-finished,", "--disable=job,cronjob,ttl-after-finished", "does not serve"}},
		"nothing but no's": {says(http.StatusForbidden, "Forbidden"), within, []string{"starting job, cronjob, ttl-after-finished,", "Forbidden it is"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			w := &world{answer: tc.answer}
			ran, err := runUntilRunning(t, w.options(tc.within))
			if ran || err == nil {
				t.Fatalf("ran: %t, error: %v", ran, err)
			}
			for _, s := range tc.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("the error does not say %q: %v", s, err)
				}
			}
			mustLeaveNothing(t, before)
		})
	}
}

// TestControllerThatCannotBeMadeIsNamed also checks that the controllers created before leave no goroutines.
func TestControllerThatCannotBeMadeIsNamed(t *testing.T) {
	before := runtime.NumGoroutine()
	o := (&world{}).options(patience)
	good := o.ConfigFor
	o.ConfigFor = func(account string) *rest.Config {
		c := rest.CopyConfig(good(account))
		if account == "job-controller" {
			c.Host = "http://%"
		}
		return c
	}
	ran, err := runUntilRunning(t, o)
	if ran || err == nil || !strings.Contains(err.Error(), "starting the job controller: ") {
		t.Fatalf("ran: %t, error: %v", ran, err)
	}
	mustLeaveNothing(t, before)
}

func TestCancellingTheStartIsNoError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &world{answer: func(ctx context.Context, _ string) *http.Response { cancel(); <-ctx.Done(); return nil }}
	before := runtime.NumGoroutine()
	if err := Run(ctx, w.options(patience), func() { t.Error("they run") }); err != nil {
		t.Error(err)
	}
	mustLeaveNothing(t, before)
}
