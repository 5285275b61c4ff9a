package gc

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	if e := told.LastEntry(); len(told.AllEntries()) != 2 || !strings.Contains(e.Message, "still name it after 10h0m0s") {
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

// TestObjectInAnotherNamespaceHoldsNoOrphaning: whoever knows an owner's UID can name it in another namespace, in an object that
// nobody may change or of a kind that nobody serves. Neither is a dependent.
func TestObjectInAnotherNamespaceHoldsNoOrphaning(t *testing.T) {
	c, s := collector(t, false)
	show(c, s.put("mine", "1", ref("owner", "o")))
	far := s.put("far", "2", ref("owner", "o"))
	far.Namespace = "elsewhere"
	show(c, far)
	delete(s.objects, "far") // the store does not know namespaces: a list of the owner's does not have it
	c.graph.AddResource(widgets, widgetKind, c.now())
	c.graph.Upsert(widgets, graph.RecordOf(&metav1.ObjectMeta{Namespace: "elsewhere", Name: "w", UID: "w", OwnerReferences: []metav1.OwnerReference{ref("owner", "o")}}), c.now())
	k := show(c, s.deleting("owner", "o", metav1.FinalizerOrphanDependents))
	if err := orphanOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantFree("mine", "o")
	if s.has("owner") {
		t.Error("the owner waits")
	}
	s.wantCalls("GET owner", "PATCH mine", "GET configmaps", "PATCH owner")
}

// TestDependentThatMayNotBeChangedHoldsItsOwnerForATime: a dependent that a quota or a webhook keeps from being changed holds its owner,
// which users are told, and no other dependent; --gc-orphan-timeout ends the wait, and the dependent is freed when it can be.
func TestDependentThatMayNotBeChangedHoldsItsOwnerForATime(t *testing.T) {
	c, s := collector(t, false)
	now := time.Unix(1_000_000, 0)
	c.now = func() time.Time { return now }
	told := hear(c)
	refused, broken := true, false
	s.answer = func(w http.ResponseWriter, call string) bool {
		switch {
		case call != "PATCH kept" || !refused:
			return false
		case broken:
			s.fail(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "kept")
		default:
			s.fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "kept")
		}
		return true
	}
	kept := show(c, s.put("kept", "1", ref("owner", "o")))
	for i := range 20 {
		show(c, s.put(fmt.Sprint("other", i), types.UID(fmt.Sprint("other", i)), ref("owner", "o")))
	}
	k := show(c, s.deleting("owner", "o", metav1.FinalizerOrphanDependents))
	for range 2 {
		if err := orphanOnce(t, c, k); !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "kept") || !s.has("owner") {
			t.Fatalf("it ended with %v; the owner is there: %v", err, s.has("owner"))
		}
		for i := range 20 {
			s.wantFree(fmt.Sprint("other", i), "o")
		}
		now = now.Add(24 * time.Hour)
	}
	if n := len(told.AllEntries()); n != 1 || !strings.Contains(told.LastEntry().Message, "cannot be found or freed") {
		t.Errorf("users are told %d times: %+v", n, told.LastEntry())
	}
	c.orphaner.timeout = 24 * time.Hour
	broken = true
	if err := orphanOnce(t, c, k); err == nil || !s.has("owner") {
		t.Errorf("a server that fails refuses nothing: %v; the owner is there: %v", err, s.has("owner"))
	}
	broken = false
	if err := orphanOnce(t, c, k); err != nil || s.has("owner") {
		t.Fatalf("it ended with %v; the owner is there: %v", err, s.has("owner"))
	}
	refused = false
	c.graph.Deleted(configMaps, &graph.Record{Namespace: "ns", Name: "owner", UID: "o"}, now)
	if err := attemptOnce(t, c, kept); err != nil {
		t.Fatal(err)
	}
	s.wantFree("kept", "o")
}

// TestEndOfADependentThatOrphaningReadsIsNotSeen: for the guard, what only a read has shown was not seen.
func TestEndOfADependentThatOrphaningReadsIsNotSeen(t *testing.T) {
	c, s := collector(t, true) // so that orphaning reads dependents
	show(c, s.put("dependent", "d", ref("owner", "o")))
	delete(s.objects, "dependent")
	k := show(c, s.deleting("owner", "o", metav1.FinalizerOrphanDependents))
	if err := orphanOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	if _, byRead := c.guard.byRead.Get(types.UID("d")); !byRead {
		t.Error("the guard takes the dependent's end for seen")
	}
}
