package fault

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/pkg/gc"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// Events that no watch shows, of an object's end, change and beginning, are found
// by the sweep. The one wait here is the sweep's own: a difference has to last.
func TestSweepRepairsLostEvents(t *testing.T) {
	w := newWorld(t)
	w.family("changed")
	w.Start(func(o *gc.Options) { o.Resync = 50 * time.Millisecond })
	w.Rest()
	w.LoseEvents(func(*fakeapi.Resource, *metav1.ObjectMeta) bool { return true })
	w.delete("doomed", metav1.DeletePropagationBackground)
	w.orphan("late", 1)
	for _, resource := range []string{"pods", "secrets"} {
		w.must(w.Update(resource, "ns", "changed-"+resource+"-0", func(m *metav1.ObjectMeta) {
			m.OwnerReferences[0].Name, m.OwnerReferences[0].UID = "doomed", "doomed-1"
		}))
	}
	w.LoseEvents(nil)
	w.wantEnd()
	if n := w.count("late"); n > 0 {
		t.Errorf("%d of the objects whose beginning was lost are left", n)
	}
	if n := w.count("changed"); n != 2*(children-1) {
		t.Errorf("%d children of an owner that exists are left", n)
	}
}
