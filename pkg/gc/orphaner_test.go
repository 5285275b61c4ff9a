package gc

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

func orphanOnce(t *testing.T, c *Collector, k graph.Key) error {
	t.Helper()
	err := c.orphaner.run(t.Context(), k)
	if err := c.graph.Check(); err != nil {
		t.Errorf("the graph is broken: %v", err)
	}
	return err
}

// wantFree fails unless the object exists and names no owner of that UID.
func (s *store) wantFree(name string, owner types.UID) {
	s.t.Helper()
	m := s.objects[name]
	if m == nil {
		s.t.Errorf("%s is gone", name)
		return
	}
	if slices.ContainsFunc(m.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == owner }) {
		s.t.Errorf("%s still names the owner: %v", name, m.OwnerReferences)
	}
}

func TestOrphaningFreesKnownAndUnknownDependents(t *testing.T) {
	c, s := collector(t, false)
	other := ref("other", "x")
	show(c, s.put("known", "1", ref("owner", "o"), other))
	s.put("late", "2", ref("owner", "o")) // its event has not come yet
	k := show(c, s.deleting("owner", "o", "mine", metav1.FinalizerOrphanDependents))
	if err := orphanOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("GET owner", "PATCH known", "GET configmaps", "PATCH late", "GET configmaps", "PATCH owner")
	s.wantFree("known", "o")
	s.wantFree("late", "o")
	if left := s.objects["known"].OwnerReferences; len(left) != 1 || left[0].UID != "x" {
		t.Errorf("another owner's reference went too: %v", left)
	}
	if f := s.objects["owner"].Finalizers; !slices.Equal(f, []string{"mine"}) {
		t.Errorf("finalizers left: %v", f)
	}
}

// A dependent whose event comes after its owner has gone was orphaned like the
// others: it is freed, not collected.
func TestDependentSeenAfterItsOwnerWasOrphanedIsFreed(t *testing.T) {
	c, s := collector(t, false)
	k := show(c, s.deleting("owner", "o", metav1.FinalizerOrphanDependents))
	if err := orphanOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	c.graph.Deleted(configMaps, &graph.Record{Namespace: "ns", Name: "owner", UID: "o"}, c.now())
	s.calls = nil
	late := show(c, s.put("late", "l", ref("owner", "o")))
	if err := attemptOnce(t, c, late); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("PATCH late")
	s.wantFree("late", "o")
}

func TestOrphaningWaitsForWhatCannotBeRead(t *testing.T) {
	c, s := collector(t, false)
	now := time.Unix(1000, 0)
	c.now = func() time.Time { return now }
	k := show(c, s.deleting("owner", "o", metav1.FinalizerOrphanDependents))
	s.answer = func(w http.ResponseWriter, call string) bool {
		if call == "GET configmaps" {
			s.fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "")
			return true
		}
		if call == "GET aaa" {
			s.list(w)
			return true
		}
		return false
	}
	// More resources are to be listed. The one that failed is listed first, and its
	// failure ends the attempt.
	c.graph.SetCatalog(graph.NewCatalog(append([]*graph.Resource{{Name: "aaa", Kind: "Aaa", Versions: []string{"v1"}, Namespaced: true, Monitored: true}}, c.graph.Catalog().Resources()...)), c.now())
	for i := range 3 {
		if err := orphanOnce(t, c, k); err == nil || !strings.Contains(err.Error(), "configmaps") {
			t.Errorf("it went on, or does not say for what it waits: %v", err)
		}
		if i > 0 {
			s.wantCalls("GET owner", "GET configmaps")
		}
		s.calls = nil
		now = now.Add(24 * time.Hour)
	}
	if !s.has("owner") {
		t.Error("the owner was released")
	}
	c.orphaner.timeout = 24 * time.Hour
	if err := orphanOnce(t, c, k); err != nil {
		t.Error(err)
	}
	if s.has("owner") {
		t.Error("the owner stays after the timeout")
	}
}

// A wait that was called off does not count when the object is orphaned again, and it
// is not remembered for ever.
func TestOrphaningThatWasCalledOffHasNotWaited(t *testing.T) {
	c, s := collector(t, false)
	deleting := func() graph.Key { return show(c, s.deleting("owner", "o", "mine", metav1.FinalizerOrphanDependents)) }
	s.answer = func(w http.ResponseWriter, call string) bool {
		if call == "GET configmaps" {
			s.fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "")
			return true
		}
		return false
	}
	for name, callOff := range map[string]func(graph.Key){
		"known":         func(graph.Key) { show(c, s.deleting("owner", "o", "mine")) },
		"not known yet": func(graph.Key) { s.deleting("owner", "o", "mine") },
		"gone": func(k graph.Key) {
			c.graph.Deleted(k.Resource, &graph.Record{Namespace: "ns", Name: "owner", UID: "o"}, c.now())
		},
	} {
		k := deleting()
		if err := orphanOnce(t, c, k); err == nil || len(c.orphaner.progress.all) != 1 {
			t.Fatalf("it does not wait: %v, %v", err, c.orphaner.progress.all)
		}
		callOff(k)
		if err := orphanOnce(t, c, k); err != nil {
			t.Error(err)
		}
		if len(c.orphaner.progress.all) != 0 {
			t.Errorf("%s: remembered is %v", name, c.orphaner.progress.all)
		}
	}
}

// An owner that changes all the time, such as one with a heartbeat, has always changed
// by the time its dependents are listed.
func TestOrphaningEndsThoughTheOwnerKeepsChanging(t *testing.T) {
	c, s := collector(t, false)
	k := show(c, s.deleting("owner", "o", metav1.FinalizerOrphanDependents))
	s.before = func(call string) {
		if call == "GET configmaps" {
			s.deleting("owner", "o", metav1.FinalizerOrphanDependents)
		}
	}
	if err := orphanOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("GET owner", "GET configmaps", "PATCH owner", "GET owner", "PATCH owner")
	if s.has("owner") {
		t.Error("the owner is still there")
	}
	// The owner's latest state says whether it is to be orphaned at all.
	k = show(c, s.deleting("owner", "p", metav1.FinalizerOrphanDependents))
	s.before = func(call string) {
		if call == "GET configmaps" {
			s.deleting("owner", "p", metav1.FinalizerDeleteDependents)
		}
	}
	if err := orphanOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("GET owner", "GET configmaps", "PATCH owner", "GET owner")
	if c.attempts.tombstones.has("p") {
		t.Error("dependents of an owner whose orphaning was called off are to be freed")
	}
}

func TestOrphaningThatWasCalledOffChangesNothing(t *testing.T) {
	c, s := collector(t, false)
	show(c, s.put("child", "1", ref("owner", "o")))
	k := show(c, s.deleting("owner", "o", metav1.FinalizerOrphanDependents))
	s.deleting("owner", "o", metav1.FinalizerDeleteDependents)
	if err := orphanOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("GET owner")
}

func TestOrphaningFollowsADependentThatChanges(t *testing.T) {
	c, s := collector(t, false)
	show(c, s.put("child", "1", ref("owner", "o")))
	k := show(c, s.deleting("owner", "o", metav1.FinalizerOrphanDependents))
	s.put("child", "1", ref("other", "x"), ref("owner", "o"))
	if err := orphanOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("GET owner", "PATCH child", "GET child", "PATCH child", "GET configmaps", "PATCH owner")
	s.wantFree("child", "o")
}

// waiting shows an owner that has been in foreground deletion long enough to settle.
func waiting(c *Collector, s *store, name string, uid types.UID) graph.Key {
	m := s.deleting(name, uid, metav1.FinalizerDeleteDependents)
	c.graph.Upsert(configMaps, graph.RecordOf(m), c.now().Add(-time.Minute))
	return graph.Key{Resource: configMaps, UID: uid}
}

func TestWaitingOwnerIsReadLiveOnceForItsDependents(t *testing.T) {
	c, s := collector(t, false)
	waiting(c, s, "owner", "o")
	first := show(c, s.put("first", "1", ref("owner", "o")))
	second := show(c, s.put("second", "2", ref("owner", "o")))
	for _, k := range []graph.Key{first, second} {
		if err := attemptOnce(t, c, k); err != nil {
			t.Fatal(err)
		}
	}
	s.wantCalls("GET owner", "DELETE first", "DELETE second")
}

func TestOwnerThatNoLongerWaitsKeepsItsDependents(t *testing.T) {
	c, s := collector(t, false)
	waiting(c, s, "owner", "o")
	s.deleting("owner", "o", "mine") // a user removed the finalizer; no event yet
	k := show(c, s.put("child", "1", ref("owner", "o")))
	if err := attemptOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("GET owner")
}

func TestReleaseTakesOneFinalizerAndWaitsForItsTime(t *testing.T) {
	c, s := collector(t, false)
	synced(c)
	now := time.Unix(1000, 0)
	c.now = func() time.Time { return now }
	k := show(c, s.deleting("owner", "o", "mine", metav1.FinalizerDeleteDependents, "yours"))
	again, err := c.attempts.run(t.Context(), k)
	if err != nil || !again.After(now) {
		t.Fatalf("decide again at %v, %v", again, err)
	}
	s.wantCalls()
	now = again
	if err := attemptOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("GET owner", "PATCH owner")
	if f := s.objects["owner"].Finalizers; !slices.Equal(f, []string{"mine", "yours"}) {
		t.Errorf("finalizers left: %v", f)
	}
}

func TestBlockingDependentHoldsItsOwner(t *testing.T) {
	c, s := collector(t, false)
	synced(c)
	k := waiting(c, s, "owner", "o")
	yes := true
	blocking := ref("owner", "o")
	blocking.BlockOwnerDeletion = &yes
	m := s.put("child", "1", blocking)
	show(c, m)
	if err := attemptOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls()
	woken := c.graph.Deleted(configMaps, graph.RecordOf(m), c.now())
	if !slices.Contains(woken, k) {
		t.Errorf("the deletion wakes %v", woken)
	}
	if err := attemptOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("GET owner", "PATCH owner")
}

func TestVanishedObjectIsReadLiveBeforeItCounts(t *testing.T) {
	c, s := collector(t, false)
	owner := s.put("owner", "o")
	show(c, owner)
	child := show(c, s.put("child", "1", ref("owner", "o")))
	// A server that wrongly returns an empty list must not cost one object.
	for _, k := range append(c.graph.Vanished(configMaps, "o"), c.graph.Vanished(configMaps, "1")...) {
		if err := attemptOnce(t, c, k); err != nil {
			t.Fatal(err)
		}
	}
	if err := attemptOnce(t, c, child); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("GET owner", "GET child")
	// A real deletion is found in the same way.
	delete(s.objects, "owner")
	for _, k := range c.graph.Vanished(configMaps, "o") {
		if err := attemptOnce(t, c, k); err != nil {
			t.Fatal(err)
		}
	}
	if err := attemptOnce(t, c, child); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("GET owner", "DELETE child")
}

// synced makes the collector believe that every first list is in the graph.
func synced(c *Collector) { c.graph.Listed(configMaps, time.Unix(1, 0)) }
