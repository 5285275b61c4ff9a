package gc

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// blocking is a reference that makes its owner wait.
func blocking(name string, uid types.UID) metav1.OwnerReference {
	yes := true
	r := ref(name, uid)
	r.BlockOwnerDeletion = &yes
	return r
}

// ringMember shows an object in foreground deletion with owners.
func ringMember(c *Collector, s *store, name string, owners ...metav1.OwnerReference) *metav1.ObjectMeta {
	m := s.deleting(name, types.UID(name), metav1.FinalizerDeleteDependents)
	m.OwnerReferences = owners
	show(c, m)
	return m
}

// blocks lists which references of an object block, in their order.
func blocks(m *metav1.ObjectMeta) (all []bool) {
	for _, r := range m.OwnerReferences {
		all = append(all, graph.ReferenceOf(r).BlockOwnerDeletion == graph.True)
	}
	return all
}

func TestOnlyReferencesWithinTheRingAreUnblocked(t *testing.T) {
	c, s := collector(t, false)
	ringMember(c, s, "a", blocking("c", "c"), blocking("outside", "outside"))
	ringMember(c, s, "b", blocking("a", "a"))
	ringMember(c, s, "c", blocking("b", "b"))
	ringMember(c, s, "outside")
	ringMember(c, s, "tail", blocking("a", "a"))
	for _, ring := range c.graph.Cycles() {
		if err := c.breaker.breakRing(t.Context(), ring); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string][]bool{"a": {false, true}, "b": {false}, "c": {false}, "tail": {true}} {
		if got := blocks(s.objects[name]); len(got) != len(want) || got[0] != want[0] || got[len(got)-1] != want[len(want)-1] {
			t.Errorf("%s blocks %v, want %v", name, got, want)
		}
	}
}

func TestRingThatNoLongerExistsIsLeftAlone(t *testing.T) {
	c, s := collector(t, false)
	ringMember(c, s, "a", blocking("b", "b"))
	ringMember(c, s, "b", blocking("a", "a"))
	rings := c.graph.Cycles()
	if len(rings) != 1 {
		t.Fatalf("found %d rings, want 1", len(rings))
	}
	// Somebody has taken the reference away; no event has come yet.
	b := s.deleting("b", "b", metav1.FinalizerDeleteDependents)
	if err := c.breaker.breakRing(t.Context(), rings[0]); !errors.Is(err, errRingChanges) {
		t.Fatalf("got %v: nobody would look again", err)
	}
	if got := blocks(s.objects["a"]); len(got) != 1 || !got[0] {
		t.Errorf("a chain was cut: %v", got)
	}
	show(c, b)
	if rings := c.graph.Cycles(); len(rings) > 0 {
		t.Errorf("found %d rings, want none", len(rings))
	}
}

// A ring is open just when it is read, and closed again before the monitor lists anew.
// The graph sees only another resourceVersion.
func TestRingThatWasOpenWhenItWasReadIsBrokenLater(t *testing.T) {
	c, s := collector(t, false)
	now := time.Now()
	c.now = func() time.Time { return now }
	a := ringMember(c, s, "a", blocking("a", "a"))
	s.before = func(string) { a.OwnerReferences, a.ResourceVersion = nil, "998" }
	c.breaker.look(t.Context())
	s.before = nil
	a.OwnerReferences, a.ResourceVersion = []metav1.OwnerReference{blocking("a", "a")}, "999"
	show(c, a)
	now = now.Add(ringsEvery)
	c.breaker.look(t.Context())
	if got := blocks(a); got[0] {
		t.Error("the ring was not looked at again")
	}
}

// The members are read one after another, so the reads can show a ring that never existed as a whole.
func TestRingOfOtherVersionsThanTheGraphHasIsLeftForLater(t *testing.T) {
	c, s := collector(t, false)
	ringMember(c, s, "a", blocking("b", "b"))
	ringMember(c, s, "b", blocking("a", "a"))
	rings := c.graph.Cycles()
	// It was changed; no event has come yet.
	b := s.deleting("b", "b", metav1.FinalizerDeleteDependents)
	b.OwnerReferences = []metav1.OwnerReference{blocking("a", "a")}
	b.ResourceVersion = "999"
	if err := c.breaker.breakRing(t.Context(), rings[0]); err == nil {
		t.Error("a ring was broken that was perhaps never whole")
	}
	if got := blocks(s.objects["a"]); !got[0] {
		t.Error("a was unblocked though the graph had another version of b")
	}
	show(c, b)
	if err := c.breaker.breakRing(t.Context(), c.graph.Cycles()[0]); err != nil {
		t.Error(err)
	}
	if got := blocks(s.objects["a"]); got[0] {
		t.Error("a still blocks its owner")
	}
}

func TestMemberThatCannotBeReadKeepsTheRing(t *testing.T) {
	c, s := collector(t, false)
	ringMember(c, s, "a", blocking("b", "b"))
	ringMember(c, s, "b", blocking("a", "a"))
	s.answer = func(w http.ResponseWriter, call string) bool {
		if call == "GET b" {
			http.NotFound(w, nil) // proves nothing
			return true
		}
		return false
	}
	if err := c.breaker.breakRing(t.Context(), c.graph.Cycles()[0]); err == nil {
		t.Error("a ring was broken on a guess")
	}
	if got := blocks(s.objects["a"]); !got[0] {
		t.Error("a was unblocked though a member could not be read")
	}
}

func TestChangeWhileARingIsBrokenStartsOver(t *testing.T) {
	c, s := collector(t, false)
	a := ringMember(c, s, "a", blocking("b", "b"))
	ringMember(c, s, "b", blocking("a", "a"))
	once := true
	s.before = func(call string) {
		if once && call == "PATCH a" {
			once = false
			a.ResourceVersion = "999"
		}
	}
	if err := c.breaker.breakRing(t.Context(), c.graph.Cycles()[0]); err == nil {
		t.Error("a conflict passes for success")
	}
	if once {
		t.Error("nothing was patched")
	}
}

// After a conflict at one member there may be no ring left to retry. Users are told even so.
func TestPartlyBrokenRingIsReported(t *testing.T) {
	c, s := collector(t, false)
	log, logged := logtest.NewNullLogger()
	c.tell.log = logrus.NewEntry(log)
	c.breaker.workers = 1
	a := ringMember(c, s, "a", blocking("b", "b"))
	b := ringMember(c, s, "b", blocking("a", "a"))
	patched := 0
	s.before = func(call string) {
		if strings.HasPrefix(call, "PATCH") {
			if patched++; patched == 1 {
				for _, m := range []*metav1.ObjectMeta{a, b} {
					if call != "PATCH "+m.Name {
						m.ResourceVersion = "999"
					}
				}
			}
		}
	}
	if err := c.breaker.breakRing(t.Context(), c.graph.Cycles()[0]); err == nil {
		t.Error("a conflict passes for success")
	}
	if got := len(logged.AllEntries()); got != 2 {
		t.Errorf("users are told %d times", got)
	}
}

// TestMembersOfARingAreNamedInOrder: each event names the same members, sorted by name.
func TestMembersOfARingAreNamedInOrder(t *testing.T) {
	c, s := collector(t, false)
	log, logged := logtest.NewNullLogger()
	c.tell.log = logrus.NewEntry(log)
	members := []string{"e", "b", "d", "a", "c"}
	for i, name := range members {
		next := members[(i+1)%len(members)]
		ringMember(c, s, name, blocking(next, types.UID(next)))
	}
	if err := c.breaker.breakRing(t.Context(), c.graph.Cycles()[0]); err != nil {
		t.Fatal(err)
	}
	entries := logged.AllEntries()
	if len(entries) != len(members) {
		t.Errorf("users are told %d times", len(entries))
	}
	for _, e := range entries {
		if !strings.Contains(e.Message, "(configmaps/a, configmaps/b, configmaps/c, configmaps/d, configmaps/e)") {
			t.Errorf("the members are named in another order: %s", e.Message)
		}
	}
}
