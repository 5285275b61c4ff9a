package listing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// world is an API server with some objects.
type world struct {
	*fakeapi.Server
	t      *testing.T
	config *rest.Config
}

func newWorld(t *testing.T) *world {
	s := fakeapi.New()
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return &world{s, t, &rest.Config{Host: h.URL, QPS: -1}}
}

func (w *world) create(resource, name string, owners ...string) {
	w.t.Helper()
	m := metav1.ObjectMeta{Namespace: "ns", Name: name}
	for _, o := range owners {
		m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: o, UID: types.UID(o + "-1")})
	}
	if err := w.Create(resource, m); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) list(o Options) *Result {
	w.t.Helper()
	r, err := List(w.t.Context(), w.config, o)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := r.Graph.Check(); err != nil {
		w.t.Error(err)
	}
	return r
}

// decided returns what the collector would do about an object.
func (r *Result) decided(t *testing.T, resource, uid string) decide.Decision {
	t.Helper()
	v, ok := r.Graph.View(graph.Key{Resource: schema.GroupResource{Resource: resource}, UID: types.UID(uid)})
	if !ok {
		t.Fatalf("%s %s is not in the graph", resource, uid)
	}
	return decide.From(r.Graph, &v, decide.Options{}, r.Now)
}

func TestListingDecidesAsTheCollectorWould(t *testing.T) {
	w := newWorld(t)
	w.create("configmaps", "living")
	w.create("pods", "kept", "living")
	w.create("pods", "doomed", "ghost")
	w.create("pods", "half", "ghost", "living")
	w.create("configmaps", "waiting")
	w.create("secrets", "below", "waiting")
	foreground := metav1.DeletePropagationForeground
	if err := w.Delete("configmaps", "ns", "waiting", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	if err := w.Update("pods", "ns", "kept", func(m *metav1.ObjectMeta) { m.Finalizers = []string{"orphan", "example.com/hold"} }); err != nil {
		t.Fatal(err)
	}
	var last Progress
	r := w.list(Options{Progress: func(p Progress) { last = p }})
	for uid, want := range map[string]decide.Reason{"kept-1": decide.OwnerSolid, "doomed-1": decide.OwnersDangling, "half-1": decide.SomeDangling} {
		if d := r.decided(t, "pods", uid); d.Reason != want {
			t.Errorf("%s: %s, want %s", uid, d.Reason, want)
		}
	}
	if d := r.decided(t, "secrets", "below-1"); d.Reason != decide.OwnerWaiting {
		t.Errorf("the dependent of an owner that waits: %s", d.Reason)
	}
	if d := r.decided(t, "configmaps", "waiting-1"); d.Reason != decide.NothingBlocks {
		t.Errorf("an owner that nothing blocks: %s", d.Reason)
	}
	kept := graph.Key{Resource: schema.GroupResource{Resource: "pods"}, UID: "kept-1"}
	if f := r.Finalizers; len(f) != 1 || len(f[kept]) != 1 || f[kept][0] != "example.com/hold" {
		t.Errorf("finalizers: %v", f)
	}
	if len(r.Gaps) != 0 || last.Resources == 0 || last.Listed != last.Resources || last.Objects != 6 || last.Expected != 6 || last.Owners != 2 || last.Read != 2 {
		t.Errorf("gaps %v, progress %+v", r.Gaps, last)
	}
	for _, c := range w.Calls(0) {
		if c.Verb != "discover" && c.Verb != "list" && c.Verb != "get" {
			t.Errorf("a listing made the call %s", c)
		}
	}
}

// TestOwnerCreatedAfterItsListIsNotAbsent: the lists show different moments. The owner is
// created after its resource was listed.
func TestOwnerCreatedAfterItsListIsNotAbsent(t *testing.T) {
	w := newWorld(t)
	listed := make(chan struct{})
	var once, allButPods sync.Once
	w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		if c.Verb == "list" && c.Resource == "pods" {
			<-listed
			once.Do(func() {
				w.create("configmaps", "late")
				w.create("pods", "child", "late")
			})
		}
		return nil
	})
	r := w.list(Options{Progress: func(p Progress) {
		if p.Listed == p.Resources-1 {
			allButPods.Do(func() { close(listed) })
		}
	}})
	if d := r.decided(t, "pods", "child-1"); d.Reason != decide.OwnerSolid {
		t.Errorf("the child of an owner that its list does not show: %s", d.Reason)
	}
}

func TestResourceThatMayNotBeListedIsAGap(t *testing.T) {
	w := newWorld(t)
	w.create("configmaps", "owner")
	w.create("pods", "child", "owner")
	w.create("secrets", "child", "owner")
	w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		if c.Verb == "list" && c.Resource == "secrets" {
			return fakeapi.Fail(http.StatusForbidden, metav1.StatusReasonForbidden)
		}
		return nil
	})
	r := w.list(Options{})
	if len(r.Gaps) != 1 || r.Gaps[0].What != "secrets" || r.Gaps[0].Err == nil {
		t.Errorf("the gaps are %v, want secrets with its error", r.Gaps)
	}
	if d := r.decided(t, "pods", "child-1"); d.Reason != decide.OwnerSolid {
		t.Errorf("beside the gap: %s", d.Reason)
	}
	if _, synced := r.Graph.Synced(); !synced {
		t.Error("the graph waits for a resource that nobody can list")
	}
}

// TestOwnerOfAnUnlistableResourceIsNotAbsent: an owner whose resource cannot be listed is read. If it
// cannot be read either, nothing is known of it.
func TestOwnerOfAnUnlistableResourceIsNotAbsent(t *testing.T) {
	w := newWorld(t)
	w.create("configmaps", "owner")
	w.create("pods", "child", "owner")
	var verbs atomic.Value
	w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		if c.Resource == "configmaps" && strings.Contains(verbs.Load().(string), c.Verb) {
			return fakeapi.Fail(http.StatusForbidden, metav1.StatusReasonForbidden)
		}
		return nil
	})
	for refused, want := range map[string]decide.Reason{"list": decide.OwnerSolid, "list get": decide.OwnerUnverified} {
		verbs.Store(refused)
		if d := w.list(Options{}).decided(t, "pods", "child-1"); d.Reason != want {
			t.Errorf("%s refused: %s, want %s", refused, d.Reason, want)
		}
	}
}

func TestServerThatStopsAnsweringIsOneError(t *testing.T) {
	cut := func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }
	for name, at := range map[string]func(fakeapi.Call) bool{
		"between two pages":    func(c fakeapi.Call) bool { return c.Resource == "pods" && c.Query.Get("continue") != "" },
		"when owners are read": func(c fakeapi.Call) bool { return c.Verb == "get" },
		"at once":              func(fakeapi.Call) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // client-go retries for ten seconds
			w := newWorld(t)
			w.SetPageSize(2)
			for i := range 5 {
				w.create("pods", fmt.Sprint("child", i), "ghost")
			}
			w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
				if at(c) {
					return cut
				}
				return nil
			})
			r, err := List(t.Context(), w.config, Options{})
			if err == nil || r != nil || strings.Contains(err.Error(), "context canceled") {
				t.Errorf("%v, %v", r, err)
			}
		})
	}
}

func TestUnknownCallerIsOneError(t *testing.T) {
	w := newWorld(t)
	w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		if c.Verb == "list" {
			return fakeapi.Fail(http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
		}
		return nil
	})
	if r, err := List(t.Context(), w.config, Options{}); err == nil || r != nil {
		t.Errorf("%v, %v", r, err)
	}
}

func TestListThatExpiresIsReadAsAWhole(t *testing.T) {
	w := newWorld(t)
	w.SetPageSize(2)
	for i := range 5 {
		w.create("pods", fmt.Sprint("pod", i))
	}
	var once sync.Once
	w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		if c.Resource == "pods" && c.Query.Get("continue") != "" {
			once.Do(w.Compact)
		}
		return nil
	})
	var last Progress
	r := w.list(Options{Progress: func(p Progress) { last = p }})
	if n := r.Graph.Count(schema.GroupResource{Resource: "pods"}); n != 5 || last.Objects != 5 || last.Expected != 5 {
		t.Errorf("%d pods, progress %+v", n, last)
	}
}

func TestListingEndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		if c.Verb != "list" {
			return nil
		}
		return func(_ http.ResponseWriter, r *http.Request) {
			cancel(enough)
			<-r.Context().Done() // hangs until the client goes
		}
	})
	if _, err := List(ctx, w.config, Options{}); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
}

// TestNameThatIsAPathIsNotRead: such a name would be another path, read with the caller's
// permissions.
func TestNameThatIsAPathIsNotRead(t *testing.T) {
	w := newWorld(t)
	w.create("pods", "child", "x/proxy/y")
	if d := w.list(Options{}).decided(t, "pods", "child-1"); d.Reason != decide.OwnerUnverified {
		t.Errorf("got %s", d.Reason)
	}
	for _, c := range w.Calls(0) {
		if c.Verb == "get" {
			t.Errorf("a name that is a path was read: %s", c)
		}
	}
}
