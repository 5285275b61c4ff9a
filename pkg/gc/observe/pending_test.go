package observe

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// Notifications are written as "+a1": shown, at version 1; "-a1": deleted; "?a1":
// vanished; "|": the end of the first list.
func TestPendingKeepsWhatMatters(t *testing.T) {
	for _, test := range []struct{ name, seen, want string }{
		{"one after the other", "+a1 +b1 -c1 ?d1", "+a1 +b1 -c1 ?d1"},
		{"a newer record in the place of an older", "+a1 +b1 +a2 +a3", "+a3 +b1"},
		{"an end makes the rest superfluous and comes last", "+a1 +b1 -a2", "+b1 -a2"},
		{"an end stays", "-a1 +a2 +a3", "-a1 +a3"},
		{"an end stays, though the object vanishes", "-a1 ?a1", "-a1"},
		{"another end", "-a1 +a2 -a3 -a3", "-a1 -a3"},
		{"what the graph has not heard of vanishes", "+a1 ?a1", "+a1 ?a1"},
		{"and is shown again", "+a1 ?a1 +a2", "+a2"},
		{"and ends", "+a1 ?a1 -a2", "-a2"},
		{"what the graph knows vanishes and is shown again", "?a1 +a2", "+a2"},
		{"twice", "?a1 ?a1", "?a1"},
		{"the name shows another UID", "?a1 +b1 ?b1 +a1 ?a1 +b2", "+a1 ?a1 +b2"},
		{"the first list", "+a1 +b1 | +c1 +a2 -b2", "+a2 | +c1 -b2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPending()
			for seen := range strings.FieldsSeq(test.seen) {
				if seen == "|" {
					p.mark()
					continue
				}
				rec := &graph.Record{UID: types.UID(seen[1:2]), ResourceVersion: seen[2:]}
				p.add(map[byte]change{'+': shown, '-': deleted, '?': vanished}[seen[0]], rec)
			}
			var got []string
			for _, n := range p.take(nil) {
				if n.change == firstList {
					got = append(got, "|")
					continue
				}
				id := string(n.record.UID) + n.record.ResourceVersion
				got = append(got, map[change][]string{
					shown: {"+" + id}, deleted: {"-" + id}, vanished: {"?" + id}, shownThenVanished: {"+" + id, "?" + id},
				}[n.change]...)
			}
			if want := strings.Fields(test.want); !slices.Equal(got, want) {
				t.Errorf("%v is left of %s, want %v", got, test.seen, want)
			}
			if len(p.byUID) > 0 || p.first != nil || p.last != nil {
				t.Errorf("something is left: %+v", p)
			}
		})
	}
}

// Two objects that take each other's place, and one that changes for ever, take no
// more room than others.
func TestPendingIsBoundedByObjects(t *testing.T) {
	p := newPending()
	for i := range 10_000 {
		a := &graph.Record{UID: "a", ResourceVersion: fmt.Sprint(i)}
		b := &graph.Record{UID: "b", ResourceVersion: fmt.Sprint(i)}
		p.add(shown, &graph.Record{UID: "c", ResourceVersion: fmt.Sprint(i)})
		p.add(shown, a)
		p.add(vanished, a)
		p.add(shown, b)
		p.add(vanished, b)
	}
	if got := p.take(nil); len(got) != 3 {
		t.Errorf("%d notifications are kept of 3 objects", len(got))
	}
}

// While the graph is busy, an object that keeps changing waits as one notification. No
// deletion is lost.
func TestEventsThatTheGraphHasNotHeardOfAreCoalesced(t *testing.T) {
	const changes = 500
	w := newWorld(t)
	w.must(w.Create("pods", dangling("changing")))
	w.must(w.Create("pods", dangling("ending")))
	w.must(w.Create("secrets", metav1.ObjectMeta{Namespace: "ns", Name: "child", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Pod", Name: "made", UID: "made-1"},
	}}))
	w.run()
	w.untilSynced()
	w.setBusy(true)
	w.must(w.Update("pods", "ns", "ending", func(m *metav1.ObjectMeta) { m.OwnerReferences[0].Name = "another" }))
	ending := graph.Key{Resource: pods, UID: "ending-1"}
	w.until("the graph is busy", func() bool { return w.times(ending) == 2 })
	changing := graph.Key{Resource: pods, UID: "changing-1"}
	before := w.times(changing)
	for i := range changes {
		w.must(w.Update("pods", "ns", "changing", func(m *metav1.ObjectMeta) { m.OwnerReferences[0].Name = fmt.Sprint("ghost-", i) }))
	}
	for range 3 {
		w.must(w.Create("pods", metav1.ObjectMeta{Namespace: "ns", Name: "made"}))
		w.must(w.Delete("pods", "ns", "made", metav1.DeleteOptions{}))
	}
	w.Observer.mu.Lock()
	m := w.Observer.monitors[pods]
	w.Observer.mu.Unlock()
	w.until("all events have come", func() bool { return fmt.Sprint(m.revision.highest.Load()) == fmt.Sprint(w.Revision()) })
	w.setBusy(false)
	w.until("the graph has heard all", func() bool {
		v, ok := w.graph.View(graph.Key{Resource: schema.GroupResource{Resource: "secrets"}, UID: "child-1"})
		return ok && v.Owners[0].Fact.State == graph.Gone
	})
	if n := w.times(changing) - before; n == 0 || n > 2 {
		t.Errorf("the graph heard %d times of an object that changed %d times meanwhile", n, changes)
	}
	v, _ := w.graph.View(changing)
	if got, want := v.Record.References[0].Name, fmt.Sprint("ghost-", changes-1); got != want {
		t.Errorf("the last that the graph heard of is %s, want %s", got, want)
	}
	w.must(w.graph.Check())
}

// A resource counts as listed when its whole first list is in the graph.
func TestResourceIsListedWhenTheGraphHasHeardOfIt(t *testing.T) {
	w := newWorld(t)
	for i := range 200 {
		w.must(w.Create("pods", dangling(fmt.Sprint("pod-", i))))
	}
	w.setBusy(true)
	w.run()
	w.until("the graph is busy", func() bool { return w.graph.Count(pods) > 0 })
	w.until("all others", func() bool { return w.Monitors().Syncing == 1 })
	w.Observer.mu.Lock()
	m := w.Observer.monitors[pods]
	w.Observer.mu.Unlock()
	w.until("the whole list has come", m.handled.HasSynced)
	if _, synced := w.graph.Synced(); synced || w.state(pods) != Syncing {
		t.Errorf("with %d of 200 objects in the graph the resource is %s (all: %v)", w.graph.Count(pods), w.state(pods), synced)
	}
	w.setBusy(false)
	w.untilSynced()
	if n := w.graph.Count(pods); n != 200 || w.state(pods) != Synced {
		t.Errorf("the resource is %s with %d objects", w.state(pods), n)
	}
}

// Notifications that have been taken can no longer be replaced by newer ones, so few
// are taken at once. A map never shrinks, so a large one is replaced.
func TestPendingIsTakenInParts(t *testing.T) {
	p := newPending()
	for i := range 2 * keepMap {
		p.add(shown, &graph.Record{UID: types.UID(fmt.Sprint(i))})
	}
	taken := 0
	for batch := p.take(nil); len(batch) > 0; batch = p.take(nil) {
		if len(batch) > takeAtMost {
			t.Fatalf("%d are taken at once", len(batch))
		}
		taken += len(batch)
		if taken == takeAtMost { // those that are left can still be replaced
			p.add(shown, &graph.Record{UID: types.UID(fmt.Sprint(2*keepMap - 1)), ResourceVersion: "2"})
		}
	}
	if taken != 2*keepMap || p.most != 0 {
		t.Errorf("%d were taken; the map was made for %d", taken, p.most)
	}
	// Of two notifications about one object the older is taken; the newer may still be replaced.
	p.add(deleted, &graph.Record{UID: "a"})
	for i := range takeAtMost - 1 {
		p.add(shown, &graph.Record{UID: types.UID(fmt.Sprint(i))})
	}
	p.add(shown, &graph.Record{UID: "a", ResourceVersion: "1"})
	p.take(nil)
	p.add(shown, &graph.Record{UID: "a", ResourceVersion: "2"})
	if left := p.take(nil); len(left) != 1 || left[0].record.ResourceVersion != "2" {
		t.Errorf("%+v are left, want version 2 of a", left)
	}
}
