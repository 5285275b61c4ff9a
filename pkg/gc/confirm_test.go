package gc

import (
	"net/http"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// A monitor that does not show an existing object would not show its deletion either.
func TestObjectThatItsMonitorHasLostIsListedAgain(t *testing.T) {
	for _, there := range []bool{true, false} {
		c, s := collector(t, false)
		var relisted []schema.GroupResource
		c.attempts.relist = func(gr schema.GroupResource) { relisted = append(relisted, gr) }
		show(c, s.put("owner", "o"))
		k := show(c, s.put("child", "c", ref("owner", "o")))
		c.graph.Vanished(configMaps, "c")
		if !there {
			delete(s.objects, "child")
		}
		if err := attemptOnce(t, c, k); err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(relisted, configMaps); got != there {
			t.Errorf("there %v: listed again %v", there, got)
		}
		if v, ok := c.graph.View(k); ok != there || v.Missing {
			t.Errorf("there %v: known %v, missing %v", there, ok, v.Missing)
		}
		if n := c.deleting.queue.Len(); there && n != 1 {
			t.Errorf("%d objects are to be decided about", n)
		}
	}
}

// If a read fails, the objects that wait for it have failed as well and back off as its reader does.
func TestFailedReadFailsForAllThatWaitForIt(t *testing.T) {
	c, s := collector(t, false)
	k := show(c, s.put("child", "c", ref("owner", "o")))
	other := show(c, s.put("other", "d", ref("owner", "o")))
	v, _ := c.graph.View(other)
	s.answer = func(w http.ResponseWriter, call string) bool {
		o := v.Owners[0]
		c.attempts.verifier.begin(ownerRead{ownerPlace{o.Reference.UID, o.At}, o.Reference.APIVersion}, other)
		http.NotFound(w, nil) // proves nothing
		return true
	}
	if err := attemptOnce(t, c, k); err == nil {
		t.Fatal("the read has not failed")
	}
	if n := c.deleting.queue.backoff.NumRequeues(other); n != 1 {
		t.Errorf("the other has failed %d times", n)
	}
}

// Another attempt may have read an owner since an object's view was taken.
func TestOwnerThatHasBeenReadMeanwhileIsNotReadAgain(t *testing.T) {
	c, s := collector(t, false)
	k := show(c, s.put("child", "c", ref("owner", "o")))
	v, _ := c.graph.View(k)
	for _, state := range []graph.FactState{graph.Present, graph.Absent} {
		c.graph.Learn("o", v.Owners[0].At, graph.Fact{State: state, Seen: c.now()})
		proved, err := c.attempts.verifier.verify(t.Context(), k, v.Owners)
		if err != nil || len(proved) != 1 {
			t.Errorf("%v, %v", proved, err)
		}
	}
	s.wantCalls()
	// An old read is no proof.
	c, s = collector(t, false)
	show(c, s.put("child", "c", ref("owner", "o")))
	c.graph.Learn("o", v.Owners[0].At, graph.Fact{State: graph.Present})
	if _, err := c.attempts.verifier.verify(t.Context(), k, v.Owners); err != nil {
		t.Error(err)
	}
	s.wantCalls("GET owner")
}
