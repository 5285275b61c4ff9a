package gc

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/pause"
)

// A dependent of a resource that nobody serves cannot be freed, so its owner waits.
func TestOrphaningWaitsForADependentThatIsNotServed(t *testing.T) {
	c, s := collector(t, false)
	c.graph.AddResource(widgets, widgetKind, c.now())
	c.graph.Upsert(widgets, graph.RecordOf(&metav1.ObjectMeta{Name: "w", UID: "w", OwnerReferences: []metav1.OwnerReference{ref("owner", "o")}}), c.now())
	k := show(c, s.deleting("owner", "o", metav1.FinalizerOrphanDependents))
	if err := orphanOnce(t, c, k); err == nil || !strings.Contains(err.Error(), "widgets.example.com is not served") {
		t.Errorf("it ended with %v", err)
	}
	if !s.has("owner") {
		t.Error("the owner was released")
	}
}

func TestNotFoundOfAnOrphanedOwnerUpdatesTheGraph(t *testing.T) {
	c, s := collector(t, false)
	k := show(c, s.deleting("owner", "o", metav1.FinalizerOrphanDependents))
	delete(s.objects, "owner")
	if err := orphanOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	if _, known := c.graph.View(k); known {
		t.Error("the graph has it still")
	}
}

// During a pause nothing can become readable again, and users should not find their objects
// orphaned because of it.
func TestOrphaningDoesNotWaitInAPause(t *testing.T) {
	c, s := collector(t, false)
	now := time.Unix(1_000_000, 0)
	c.now = func() time.Time { return now }
	c.orphaner.timeout = 10 * time.Hour
	k := show(c, s.deleting("owner", "o", metav1.FinalizerOrphanDependents))
	s.answer = func(w http.ResponseWriter, call string) bool {
		if call == "GET configmaps" {
			s.fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "")
			return true
		}
		return false
	}
	told := hear(c)
	try := func(waits bool) {
		t.Helper()
		if err := orphanOnce(t, c, k); (err != nil) != waits || s.has("owner") != waits {
			t.Fatalf("it ended with %v; the owner is there: %v", err, s.has("owner"))
		}
	}
	try(true)
	c.gate.set(pause.State{Paused: true})
	now = now.Add(24 * time.Hour)
	c.gate.set(pause.State{})
	now = now.Add(10*time.Hour - 1)
	try(true)
	if n := len(told.AllEntries()); n != 1 {
		t.Errorf("users are told %d times that it waits", n)
	}
	now = now.Add(1)
	try(false)
	if e := told.LastEntry(); len(told.AllEntries()) != 2 || !strings.Contains(e.Message, "not have been found in 10h0m0s") {
		t.Errorf("users are told %+v", e)
	}
}

// All references with the owner's UID go in one write.
func TestOrphaningDropsAllReferencesAtOnce(t *testing.T) {
	c, s := collector(t, false)
	show(c, s.put("child", "1", ref("owner", "o"), ref("other", "x"), ref("renamed", "o")))
	k := show(c, s.deleting("owner", "o", metav1.FinalizerOrphanDependents))
	if err := orphanOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("GET owner", "PATCH child", "GET configmaps", "PATCH owner")
	s.wantFree("child", "o")
}

// An aggregated server may ignore the resourceVersion of a patch.
func TestOrphaningReadsDependentsOfAnAggregatedServer(t *testing.T) {
	c, s := collector(t, true)
	show(c, s.put("child", "1", ref("owner", "o")))
	k := show(c, s.deleting("owner", "o", metav1.FinalizerOrphanDependents))
	if err := orphanOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("GET owner", "GET child", "PATCH child", "GET configmaps", "PATCH owner")
	// An object that the read does not find is gone.
	ghost := show(c, s.put("ghost", "2", ref("owner", "p")))
	k = show(c, s.deleting("owner", "p", metav1.FinalizerOrphanDependents))
	delete(s.objects, "ghost")
	if err := orphanOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	if _, known := c.graph.View(ghost); known {
		t.Error("the graph has the ghost still")
	}
}

// A dependent that a user has bound again since it was freed must be freed again.
func TestDependentBoundAgainIsFreedAgain(t *testing.T) {
	var o orphanings
	d := []graph.Node{{Key: key("d"), Record: &graph.Record{ResourceVersion: "1"}}}
	o.freed(key("o"), d[0])
	if left := o.unfreed(key("o"), d); len(left) != 0 {
		t.Errorf("its event is on its way, and %v is to be freed", left)
	}
	d[0].Record = &graph.Record{ResourceVersion: "2"}
	if left := o.unfreed(key("o"), d); len(left) != 1 {
		t.Error("it names the owner again, and is left alone")
	}
}
