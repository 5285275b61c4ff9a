package observe

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// patience bounds every wait. A test that reaches it has failed.
const patience = 30 * time.Second

// world is a server, a graph, and the Observer that keeps the graph in step with
// the server.
type world struct {
	*fakeapi.Server
	t     *testing.T
	graph *graph.Graph
	*Observer
	ctx   context.Context // of run
	ended chan struct{}   // closed when Run has returned

	// mu protects what follows.
	mu     sync.Mutex
	queued []graph.Key
	unsure []types.UID   // objects that were queued while no monitor showed them
	busy   chan struct{} // not nil while the graph is busy
	clock  time.Duration // how far the Observer's clock is ahead
	gaveUp error
}

// newWorld returns a world whose Observer does not run yet.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Server: fakeapi.New(), t: t, graph: graph.New(), ended: make(chan struct{})}
	server := httptest.NewServer(w.Server)
	t.Cleanup(server.Close)
	log := logrus.New()
	log.SetOutput(io.Discard)
	if testing.Verbose() {
		log.SetOutput(t.Output())
		log.SetLevel(logrus.DebugLevel)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	config := &rest.Config{Host: server.URL, Transport: transport, QPS: -1}
	client, err := metadata.NewForConfig(config)
	w.must(err)
	o, err := New(Options{
		Config: config,
		Graph:  w.graph, Enqueue: w.enqueued, SyncError: func() {},
		Began: func(schema.GroupResource) {}, Ended: func(schema.GroupResource) {}, Log: logrus.NewEntry(log),
		Read: func(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string, uid types.UID) (string, bool, error) {
			m, err := client.Resource(gvr).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) || err == nil && m.UID != uid {
				return "", false, nil
			} else if err != nil {
				return "", false, err
			}
			return m.ResourceVersion, true, nil
		},
	})
	w.must(err)
	o.now = w.time
	w.Observer = o
	return w
}

// time is the Observer's clock.
func (w *world) time() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.clock)
}

// pass advances the Observer's clock and has the Observer check its monitors' health.
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	w.clock += d
	w.mu.Unlock()
	w.checkHealth()
}

// run starts the Observer. It ends with the test, and leaves no goroutine behind.
func (w *world) run() {
	w.t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	w.ctx = ctx
	go func() {
		defer close(w.ended)
		err := w.Run(ctx, func(cause error) {
			w.mu.Lock()
			w.gaveUp = cause
			w.mu.Unlock()
			cancel(cause)
		})
		if err != nil {
			w.t.Errorf("the observer ended: %v", err)
		}
	}()
	w.t.Cleanup(func() {
		w.SetFault(nil)
		w.setBusy(false)
		cancel(nil)
		select {
		case <-w.ended:
		case <-time.After(patience):
			w.t.Error("the observer does not end")
		}
		var left string
		if !w.holds(func() bool { left = monitors(); return left == "" }) {
			w.t.Errorf("goroutines outlive the observer:\n%s", left)
		}
	})
}

// monitors returns the stacks of goroutines that only monitors start.
func monitors() string {
	buffer := make([]byte, 1<<20)
	buffer = buffer[:runtime.Stack(buffer, true)]
	var left []string
	for stack := range strings.SplitSeq(string(buffer), "\n\n") {
		if strings.Contains(stack, "testing.tRunner") {
			continue // the test itself
		}
		if strings.Contains(stack, "observe.(*") || strings.Contains(stack, "client-go/tools/cache.") {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// enqueued is called by the Observer after the graph has changed.
func (w *world) enqueued(keys []graph.Key) {
	w.mu.Lock()
	busy := w.busy
	w.queued = append(w.queued, keys...)
	for _, k := range keys {
		if v, ok := w.graph.View(k); ok && v.Missing {
			w.unsure = append(w.unsure, k.UID)
		}
	}
	w.mu.Unlock()
	if busy != nil && slices.ContainsFunc(keys, func(k graph.Key) bool { return k.Resource == pods }) {
		<-busy
	}
}

// setBusy stops the monitor of pods from updating the graph, or lets it continue.
func (w *world) setBusy(busy bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case busy && w.busy == nil:
		w.busy = make(chan struct{})
	case !busy && w.busy != nil:
		close(w.busy)
		w.busy = nil
	}
}

// times returns how often an object has been queued.
func (w *world) times(k graph.Key) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.queued {
		if q == k {
			n++
		}
	}
	return n
}

func (w *world) holds(condition func() bool) bool {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if condition() {
			return true
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return false
		}
	}
}

func (w *world) until(what string, condition func() bool) {
	w.t.Helper()
	if !w.holds(condition) {
		w.t.Fatalf("waited in vain: %s", what)
	}
}

func (w *world) untilSynced() {
	w.t.Helper()
	w.until("all lists", func() bool { _, ok := w.graph.Synced(); return ok })
}

var pods = schema.GroupResource{Resource: "pods"}

// dangling returns a pod whose owner does not exist.
func dangling(name string) metav1.ObjectMeta {
	ghost := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "ghost", UID: "ghost-1"}
	return metav1.ObjectMeta{Namespace: "ns", Name: name, OwnerReferences: []metav1.OwnerReference{ghost}}
}

// state returns the state of a resource's monitor; empty if there is none.
func (w *world) state(gr schema.GroupResource) State {
	for _, m := range w.States() {
		if m.Resource.GroupResource() == gr {
			return m.State
		}
	}
	return ""
}
