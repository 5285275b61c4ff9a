package observe

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// If a name shows another UID, or a list does not show an object, the object has not been seen to end.
func TestHandlerTellsDeletedFromVanished(t *testing.T) {
	rec := func(uid types.UID, version string) *graph.Record {
		return &graph.Record{Namespace: "ns", Name: "n", UID: uid, ResourceVersion: version}
	}
	for name, c := range map[string]struct {
		event func(cache.ResourceEventHandler)
		want  []change
	}{
		"added":                   {func(h cache.ResourceEventHandler) { h.OnAdd(rec("a", "7"), true) }, []change{shown}},
		"updated":                 {func(h cache.ResourceEventHandler) { h.OnUpdate(rec("a", "6"), rec("a", "7")) }, []change{shown}},
		"updated to another UID":  {func(h cache.ResourceEventHandler) { h.OnUpdate(rec("b", "6"), rec("a", "7")) }, []change{vanished, shown}},
		"deleted":                 {func(h cache.ResourceEventHandler) { h.OnDelete(rec("a", "7")) }, []change{deleted}},
		"missing from a new list": {func(h cache.ResourceEventHandler) { h.OnDelete(cache.DeletedFinalStateUnknown{Obj: rec("a", "7")}) }, []change{vanished}},
	} {
		m := &monitor{pending: newPending()}
		c.event(&handler{o: &Observer{}, resource: pods, monitor: m})
		var got []change
		for _, n := range m.pending.take(nil) {
			got = append(got, n.change)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: noted %v, want %v", name, got, c.want)
		}
		if seen := m.revision.highest.Load(); seen != 7 && name != "missing from a new list" {
			t.Errorf("%s: seen up to revision %d", name, seen)
		}
	}
}

// TestMonitorTellsTheGraph checks what a monitor hands over and how the graph changes.
func TestMonitorTellsTheGraph(t *testing.T) {
	g := graph.New()
	gr := schema.GroupResource{Resource: "pods"}
	g.SetCatalog(graph.NewCatalog([]*graph.Resource{{Name: "pods", Kind: "Pod", Versions: []string{"v1"}, Namespaced: true, Monitored: true}}), time.Now())
	g.AddResource(gr, schema.GroupKind{Kind: "Pod"}, time.Now())
	m := &monitor{o: &Observer{graph: g, enqueue: func([]graph.Key) {}}, gvr: gr.WithVersion("v1"), known: map[types.UID]struct{}{}}
	pod := func(uid types.UID) *graph.Record {
		return &graph.Record{Namespace: "ns", Name: string(uid), UID: uid, ResourceVersion: "1", References: []graph.Reference{{APIVersion: "v1", Kind: "Pod", Name: "x", UID: "x"}}}
	}
	want := func(uid types.UID, known, missing bool) {
		t.Helper()
		if v, ok := g.View(graph.Key{Resource: gr, UID: uid}); ok != known || v.Missing != missing {
			t.Errorf("%s: known %v, missing %v", uid, ok, v.Missing)
		}
	}
	g.Upsert(gr, pod("before"), time.Now()) // another monitor's
	m.tell(&notification{change: shown, record: pod("a")})
	want("a", true, false)
	m.tell(&notification{change: shownThenVanished, record: pod("b")})
	want("b", true, true)
	want("before", true, false)
	if _, synced := g.Synced(); synced {
		t.Error("all is listed before the first list has come")
	}
	m.tell(&notification{change: firstList})
	want("before", true, true)
	want("a", true, false)
	if _, synced := g.Synced(); !synced {
		t.Error("the first list counts for nothing")
	}
	m.tell(&notification{change: vanished, record: pod("a")})
	want("a", true, true)
	m.tell(&notification{change: deleted, record: pod("a")})
	want("a", false, false)
}

// A monitor that has worked tolerates one refusal. A new one tolerates only the answer that the
// resource does not exist.
func TestMonitorToleratesOneRefusal(t *testing.T) {
	refused := apierrors.NewForbidden(pods, "", errors.New("no"))
	unknown := apierrors.NewNotFound(pods, "")
	for name, c := range map[string]struct {
		listed  bool
		err     error
		fails   bool // at once
		askOnce bool
	}{
		"refused, listed before":   {true, refused, false, false},
		"refused, new":             {false, refused, true, false},
		"not found, listed before": {true, unknown, false, true},
		"not found, new":           {false, unknown, false, true},
	} {
		h := &testHealth{}
		m := &monitor{health: h.health()}
		m.listed.Store(c.listed)
		o := &Observer{changed: make(chan struct{}, 1)}
		o.callFailed(t.Context(), m, c.err)
		if _, err := m.health.failing(); (err != nil) != c.fails || len(o.changed) > 0 != c.askOnce {
			t.Errorf("%s: failing %v, discovery asked %d times", name, err, len(o.changed))
		}
		o.callFailed(t.Context(), m, c.err)
		if _, err := m.health.failing(); err == nil {
			t.Errorf("%s twice: it works", name)
		}
	}
}

// testHealth is the health of one resource and records what it reports.
type testHealth struct {
	clock    time.Time
	began    int
	readable []bool
}

func (h *testHealth) health() *health {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return &health{log: logrus.NewEntry(log), now: func() time.Time { return h.clock }, began: func() { h.began++ }, readable: func(is bool) { h.readable = append(h.readable, is) }}
}

func TestHealthTellsFailuresFromOrdinaryErrors(t *testing.T) {
	refused := apierrors.NewForbidden(pods, "", errors.New("no"))
	gone := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusGone, Reason: metav1.StatusReasonGone}}
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, apierrors.NewResourceExpired("old"), gone} {
		th := &testHealth{}
		h := th.health()
		for range 3 {
			h.failed(t.Context(), err, false)
		}
		if _, failing := h.failing(); failing != nil {
			t.Errorf("%v is a failure", err)
		}
	}
	th := &testHealth{clock: time.Unix(1000, 0)}
	h := th.health()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	h.failed(ended, refused, false)
	if _, err := h.failing(); err != nil {
		t.Error("a call that the collector has ended is a failure")
	}
	for range 3 {
		h.failed(t.Context(), refused, false)
	}
	h.announced()
	h.works()
	h.announced()
	if want := []bool{false, false, true, true}; th.began != 1 || !slices.Equal(th.readable, want) {
		t.Errorf("it began to fail %d times; readable was %v, want %v", th.began, th.readable, want)
	}
	h.retire()
	h.failed(t.Context(), refused, false)
	if _, err := h.failing(); err != nil || th.began != 1 {
		t.Error("the rest of a resource that is not served is a failure")
	}
}

func TestHealthStallsWhileNothingArrives(t *testing.T) {
	th := &testHealth{clock: time.Unix(1000, 0)}
	h := th.health()
	failing := func(want bool) {
		t.Helper()
		h.check()
		if _, err := h.failing(); (err != nil) != want {
			t.Errorf("the monitor fails with %v, want a failure: %v", err, want)
		}
	}
	h.works()
	th.clock = th.clock.Add(time.Hour)
	failing(false) // a quiet watch
	h.failed(t.Context(), io.EOF, false)
	th.clock = th.clock.Add(stallAfter - 1)
	failing(false)
	th.clock = th.clock.Add(1)
	failing(true)
	h.progressed()
	failing(false)
	// A page of a list does not end the failure of a watch that was refused.
	h.failed(t.Context(), apierrors.NewForbidden(pods, "", errors.New("no")), false)
	h.progressed()
	failing(true)
	h.works()
	failing(false)
}

// Only lists from a quorum are newer than everything seen before.
func TestInformerTellsListsFromAQuorum(t *testing.T) {
	w := newWorld(t)
	client, err := metadata.NewForConfig(w.config)
	w.must(err)
	for _, fresh := range []bool{false, true} {
		var mu sync.Mutex
		listed := 0
		told := calls{
			listed: func(string) { mu.Lock(); listed++; mu.Unlock() }, page: func(bool, bool) {}, watched: func() {}, failed: func(context.Context, error) {},
		}
		informer, err := (&factory{client: client}).informer(pods.WithVersion("v1"), fresh, told)
		w.must(err)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { informer.RunWithContext(ctx) })
		w.until("the list", informer.HasSynced)
		cancel()
		running.Wait()
		if want := map[bool]int{true: 1}[fresh]; listed != want {
			t.Errorf("fresh %v: %d lists from a quorum", fresh, listed)
		}
	}
}

// A server that keeps returning wrong lists must not keep the collector busy.
func TestResourceIsListedAgainOnceAMinute(t *testing.T) {
	w := newWorld(t)
	w.run()
	w.untilSynced()
	count := func(verb, resource string) (n int) {
		for _, c := range w.Calls(0) {
			if c.Verb == verb && (resource == "" || c.Resource == resource) && c.Code == http.StatusOK {
				n++
			}
		}
		return n
	}
	// Discovery runs a few times after the start, and then only on request.
	w.until("the first looks", func() bool {
		w.Observer.mu.Lock()
		defer w.Observer.mu.Unlock()
		return len(w.monitors) > 0
	})
	lists := count("list", "pods")
	w.Relist(pods)
	w.until("a new list", func() bool { return count("list", "pods") == lists+1 })
	for range 2 {
		looks := count("discover", "")
		w.Relist(pods)
		w.until("another look", func() bool { return count("discover", "") >= looks+4 })
	}
	w.until("rest", func() bool { return w.state(pods) == Synced })
	if n := count("list", "pods"); n != lists+1 {
		t.Errorf("it was listed again %d times", n-lists)
	}
	w.must(w.Create("pods", metav1.ObjectMeta{Namespace: "ns", Name: "p"}))
	w.until("the event", func() bool { return w.graph.Count(pods) == 1 })
}
