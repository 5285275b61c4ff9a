package observe

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/bubble"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// still returns an Observer that does not run, with a monitor of pods that has shown one pod.
func still(t *testing.T) (o *Observer, m *monitor, pod *graph.Record) {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	o = &Observer{
		graph: graph.New(), log: logrus.NewEntry(log), changed: make(chan struct{}, 1), enqueue: func([]graph.Key) {}, ended: func(schema.GroupResource) {},
		monitors: map[schema.GroupResource]*monitor{}, draining: map[schema.GroupResource]*monitor{}, suspended: map[schema.GroupResource]suspension{},
		relists: map[schema.GroupResource]bool{}, definitions: definitions{known: map[definitionKey]*definition{}},
	}
	kind := schema.GroupKind{Kind: "Pod"}
	o.graph.SetCatalog(graph.NewCatalog([]*graph.Resource{{Name: "pods", Kind: "Pod", Versions: []string{"v1"}, Namespaced: true, Monitored: true}}), time.Now())
	o.graph.AddResource(pods, kind, time.Now())
	pod = &graph.Record{Namespace: "ns", Name: "p", UID: "p", ResourceVersion: "1", References: []graph.Reference{{APIVersion: "v1", Kind: "Pod", Name: "owner", UID: "o"}}}
	o.graph.Upsert(pods, pod, time.Now())
	m = &monitor{o: o, gvr: pods.WithVersion("v1"), kind: kind, health: (&testHealth{}).health(), cancel: func() {}, done: make(chan struct{}), versions: []string{"v1"}}
	close(m.done)
	o.monitors[pods] = m
	return o, m, pod
}

// When a resource goes, its objects go first. The monitor waits for their last events. Objects that are left then
// stay, unless the resource's definition is known to be deleted.
func TestMonitorDrainsBeforeItEnds(t *testing.T) {
	for name, c := range map[string]struct {
		ends      bool // whether the object ends after a second
		crdGone   bool
		suspended bool
		after     time.Duration // when the monitor has ended, and not a second earlier
	}{
		"its objects end":         {true, false, false, 2 * time.Second},
		"its objects stay":        {false, false, true, drainTimeout + time.Second},
		"its definition has gone": {false, true, false, drainTimeout + time.Second},
	} {
		bubble.Test(t, func(t *testing.T) {
			o, m, pod := still(t)
			counted := 1
			o.ended = func(schema.GroupResource) { counted-- }
			if c.crdGone {
				o.definitions.shown(crdOf(pods), "crd", false)
				o.definitions.ended(crdOf(pods))
			}
			draining := func() bool {
				o.mu.Lock()
				defer o.mu.Unlock()
				return o.draining[pods] != nil
			}
			began := time.Now()
			o.mu.Lock()
			o.retire(t.Context(), pods, m)
			o.mu.Unlock()
			time.Sleep(time.Second)
			if c.ends {
				o.graph.Deleted(pods, pod, time.Now())
			} else {
				time.Sleep(drainTimeout - 2*time.Second)
			}
			if !c.ends && !draining() {
				t.Errorf("%s: it has ended after %s", name, time.Since(began))
			}
			time.Sleep(c.after - time.Since(began))
			synctest.Wait()
			o.mu.Lock()
			_, suspended := o.suspended[pods]
			o.mu.Unlock()
			if draining() || suspended != c.suspended || counted != 0 {
				t.Errorf("%s: draining %v, suspended %v, %d monitors are counted", name, draining(), suspended, counted)
			}
			if left := o.graph.Count(pods); (left > 0) != c.suspended {
				t.Errorf("%s: %d objects are left", name, left)
			}
		})
	}
}

// Facts from an aggregated server's store are dropped at once, and nothing else ends. If the store may be the API
// server's, everything ends.
func TestStoreThatWentBackEndsWhatItHadProved(t *testing.T) {
	for by, want := range map[server]bool{unknown: true, local: true, aggregated: false} {
		o, m, _ := still(t)
		var gaveUp error
		o.giveUp = func(err error) { gaveUp = err }
		m.server.Store(int32(by))
		m.revision.note("100")
		at := graph.Coordinates{Kind: "Pod", Namespace: "ns", Name: "owner"}
		o.graph.Learn("o", at, graph.Fact{State: graph.Absent})
		o.wentBack(m)
		if got := errors.Is(gaveUp, ErrStoreWentBack); got != want {
			t.Errorf("server %d: gave up %v", by, gaveUp)
		}
		known := o.graph.Known("o", at).State == graph.Absent
		if known != want || o.relists[pods] == want || m.anew.Load() == want || (m.revision.highest.Load() == 100) != want {
			t.Errorf("server %d: proved %v, to be listed again %v", by, known, o.relists[pods])
		}
	}
}

// When the definition of a failing resource changes, a new monitor tries it at once.
func TestChangeOfADefinitionReplacesAMonitorThatFails(t *testing.T) {
	w := newWorld(t)
	w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		if c.Resource == "pods" {
			return fakeapi.Fail(http.StatusForbidden, metav1.StatusReasonForbidden)
		}
		return nil
	})
	w.run()
	w.until("the failure", func() bool { return w.state(pods) == Failing })
	monitor := func(gr schema.GroupResource) *monitor {
		w.Observer.mu.Lock()
		defer w.Observer.mu.Unlock()
		return w.monitors[gr]
	}
	failing, working := monitor(pods), monitor(schema.GroupResource{Resource: "secrets"})
	for _, name := range []string{"pods", "secrets"} { // as if these were CRDs
		w.noticed(crds, shown, &graph.Record{Name: name, UID: "crd"}, false)
	}
	w.until("another monitor", func() bool { return monitor(pods) != failing })
	if monitor(schema.GroupResource{Resource: "secrets"}) != working {
		t.Error("a monitor that works was replaced")
	}
}

// A difference between the graph and a list counts if a live read confirms it and no event has come meanwhile.
func TestSweepBelievesALiveRead(t *testing.T) {
	for name, c := range map[string]struct {
		listed listed // empty if the list does not contain it
		live   string // version; empty if it has gone
		err    error
		event  bool
		want   bool
	}{
		"another version, and so it is":      {listed{"ns", "p", "2"}, "2", nil, false, true},
		"a newer version by now":             {listed{"ns", "p", "2"}, "3", nil, false, true},
		"another version, and the list errs": {listed{"ns", "p", "2"}, "1", nil, false, false},
		"it has gone since":                  {listed{"ns", "p", "2"}, "", nil, false, false},
		"it cannot be read":                  {listed{"ns", "p", "2"}, "", errors.New("no"), false, false},
		"an event has come":                  {listed{"ns", "p", "2"}, "2", nil, true, false},
		"not in the list":                    {listed{}, "1", nil, false, true},
		"not in the list, and an event came": {listed{}, "1", nil, true, false},
	} {
		o, m, pod := still(t)
		o.read = func(context.Context, schema.GroupVersionResource, string, string, types.UID) (string, bool, error) {
			return c.live, c.live != "", c.err
		}
		s := &suspect{gvr: m.gvr, before: o.graph.Versions(pods), objects: map[types.UID]listed{"p": c.listed}}
		if c.event {
			newer := *pod
			newer.ResourceVersion = "2"
			o.graph.Upsert(pods, &newer, time.Now())
		}
		if got, err := o.lasts(t.Context(), s); got != c.want || (err != nil) != (c.err != nil) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestChangeOfADefinitionHasDiscoveryAsked(t *testing.T) {
	for gr, want := range map[schema.GroupResource]int{pods: 0, crds: 1, apiServices: 1} {
		o, _, _ := still(t)
		o.mended = map[string]bool{}
		for _, c := range []change{shown, deleted, vanished} {
			o.noticed(gr, c, &graph.Record{Name: "x", UID: "x"}, false)
			n := len(o.changed)
			if n != want {
				t.Errorf("%s: discovery is to be asked %d times", gr, n)
			}
			for range n {
				<-o.changed
			}
		}
	}
}

// If a resource is served again while its monitor still drains, the next monitor begins when the first has ended.
func TestMonitorWaitsForTheOneThatDrains(t *testing.T) {
	w := newWorld(t)
	_, m, _ := still(t)
	w.draining[pods] = m
	began := 0
	w.began = func(schema.GroupResource) { began++ }
	w.Observer.mu.Lock()
	w.ensureMonitor(t.Context(), &graph.Resource{Name: "pods", Kind: "Pod", Versions: []string{"v1"}, Namespaced: true, Monitored: true})
	next := w.monitors[pods]
	w.Observer.mu.Unlock()
	if next != nil || began != 0 {
		next.stop()
		t.Errorf("%d monitors have begun", began)
	}
}
