package fault

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/gc"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// The next collector has none of the first one's proofs.
func TestNewCollectorRunsAfterTheStoreWentBack(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		host, line := w.Line()
		log := logrus.New()
		log.SetOutput(io.Discard)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var started atomic.Int32
		ended := make(chan error, 1)
		go func() {
			ended <- gc.Run(ctx, gc.Options{
				Config: &rest.Config{Host: host, Transport: line, QPS: -1}, Resync: 50 * time.Millisecond, Log: logrus.NewEntry(log),
			}, func() { started.Add(1) })
		}()
		w.Until("a collector", func() bool { return started.Load() == 1 })
		first, _ := gc.Running.Collector()
		w.SetPaused(true)
		w.Until("the pause", func() bool { return first.Status().Pause != nil })
		backup := w.Revision()
		w.delete("living", metav1.DeletePropagationBackground)
		k := graph.Key{Resource: (&fakeapi.Resource{Name: "pods"}).GroupResource(), UID: "living-pods-0-1"}
		// The store goes back so far that the collector's own events do not bring its revision up to
		// the old one.
		for i := range 100 {
			w.create("pods", fmt.Sprint("lost-", i))
		}
		lost := graph.Key{Resource: k.Resource, UID: "lost-99-1"}
		w.Until("proof that the owner is gone, and all events", func() bool {
			v, ok := first.Graph().View(k)
			_, last := first.Graph().View(lost)
			return ok && v.Owners[0].Fact.State == graph.Gone && last
		})
		w.Restore(backup)
		w.Until("another collector", func() bool { return started.Load() == 2 })
		if c, _ := gc.Running.Collector(); c == first || c == nil {
			t.Errorf("the collector that runs is %p, the first was %p", c, first)
		}
		w.SetPaused(false)
		w.delete("doomed", metav1.DeletePropagationBackground)
		w.Until("the end of what dangles", func() bool { return w.count("doomed") == 0 && w.count("ghost") == 0 })
		w.wantWhole("living")
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("asked to end, it ended with %v", err)
		}
	})
}
