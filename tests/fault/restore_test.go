package fault

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/pkg/gc"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// endIsSeen deletes an owner while the collector is paused, and returns a revision from
// before, in which the owner still is. The collector has proof of its end then.
func (w *world) endIsSeen(owner string) (backup int64) {
	w.t.Helper()
	w.Rest()
	backup = w.Revision()
	w.Pause(true)
	w.delete(owner, metav1.DeletePropagationBackground)
	w.Rest()
	k := graph.Key{Resource: (&fakeapi.Resource{Name: "pods"}).GroupResource(), UID: "living-pods-0-1"}
	if v, ok := w.Collector().Graph().View(k); !ok || v.Owners[0].Fact.State != graph.Gone {
		w.t.Fatalf("nothing is proved of %s: %+v", owner, v)
	}
	return backup
}

// wantNoticed waits for the end of a collector that has noticed.
func (w *world) wantNoticed() {
	w.t.Helper()
	if err := w.Ended(); !errors.Is(err, gc.ErrStoreWentBack) {
		w.t.Errorf("the collector ended: %v", err)
	}
}

// wantNewBeginning has another collector run, which finds that nothing dangles.
func (w *world) wantNewBeginning() {
	w.t.Helper()
	w.SetFault(nil)
	w.Pause(false)
	w.Start(nil)
	w.delete("doomed", metav1.DeletePropagationBackground)
	w.wantEnd()
}

// A backup is restored and no watch ends: the first to notice is the sweep, which has
// the resource listed again. What the monitor had seen before is known to the new one.
func TestStoreThatWentBackIsNoticedByAMonitorThatTakesOver(t *testing.T) {
	w := newWorld(t)
	w.Start(func(o *gc.Options) { o.Resync = 50 * time.Millisecond })
	w.Restore(w.endIsSeen("living"))
	w.wantNoticed()
	w.wantNewBeginning()
}

// Discovery that hangs does not put off the end: what the collector went on to delete, it
// would delete on proof that holds no more.
func TestStoreThatWentBackEndsADiscoveryThatHangs(t *testing.T) {
	w := newWorld(t)
	w.Start(func(o *gc.Options) { o.Config.Timeout = time.Hour })
	backup := w.endIsSeen("living")
	calls := len(w.Calls(0))
	w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		switch c.Verb {
		case "discover":
			return func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		case "watch":
			return fakeapi.Fail(http.StatusGone, metav1.StatusReasonExpired)
		}
		return nil
	})
	w.Define(fakeapi.Resource{Group: "example.com", Name: "widgets", Kind: "Widget", Versions: []string{"v1"}, Namespaced: true})
	w.Until("a discovery", func() bool {
		return slices.ContainsFunc(w.Calls(calls), func(c fakeapi.Call) bool { return c.Verb == "discover" })
	})
	w.Restore(backup)
	w.DropWatches("configmaps")
	w.wantNoticed()
	w.wantNewBeginning()
}
