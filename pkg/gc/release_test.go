package gc

import (
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// hear returns what users are told from now on.
func hear(c *Collector) *logtest.Hook {
	log, logged := logtest.NewNullLogger()
	c.tell.log = logrus.NewEntry(log)
	return logged
}

// A conflict does not end an attempt: the next round decides on the live object.
func TestReleaseGoesOnAfterAConflict(t *testing.T) {
	c, s := collector(t, false)
	synced(c)
	k := waiting(c, s, "owner", "o")
	once := true
	s.before = func(call string) {
		if call == "PATCH owner" && once {
			once = false
			s.objects["owner"].ResourceVersion = "999"
		}
	}
	if err := attemptOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("GET owner", "PATCH owner", "GET owner", "PATCH owner")
	if s.has("owner") {
		t.Error("the owner is still there")
	}
}

func TestReleaseLeavesAnObjectThatNoLongerWaits(t *testing.T) {
	c, s := collector(t, false)
	synced(c)
	k := waiting(c, s, "owner", "o")
	s.deleting("owner", "o", "mine") // a user removed the finalizer; no event yet
	if err := attemptOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("GET owner")
}

// A store that went back can show the object as it was before it was deleted.
func TestReleaseLeavesAnObjectThatNobodyDeletes(t *testing.T) {
	c, s := collector(t, false)
	synced(c)
	k := waiting(c, s, "owner", "o")
	s.put("owner", "o").Finalizers = []string{metav1.FinalizerDeleteDependents}
	if err := attemptOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("GET owner")
}

// After the deadline it no longer matters whether the controller is behind.
func TestTimeoutReadsTheObjectOnce(t *testing.T) {
	p := newPatience(t, tenMinutes)
	k := p.behind(t, map[string]any{"observedGeneration": 1})
	p.dependent("d", "o")
	p.clock = p.clock.Add(time.Hour)
	p.s.calls = nil
	if _, gone := p.look(t, k); !gone {
		t.Error("it waits beyond its deadline")
	}
	p.s.wantCalls("GET o", "PATCH o")
}

// Users are not told of a timeout that ended nothing.
func TestTimeoutOfAnObjectThatIsGoneIsNotReported(t *testing.T) {
	p := newPatience(t, tenMinutes)
	told := hear(p.Collector)
	k := p.owner("o", time.Hour)
	p.dependent("d", "o")
	p.s.before = func(call string) {
		if call == "PATCH o" {
			delete(p.s.objects, "o")
		}
	}
	p.look(t, k)
	if n := len(told.AllEntries()); n != 0 {
		t.Errorf("users are told: %s", told.LastEntry().Message)
	}
}

// If a timeout ends a wait because not everything has been listed, users are told so: no dependent is known to
// block.
func TestTimeoutWithoutAllListsIsReported(t *testing.T) {
	p := newPatience(t, tenMinutes)
	told := hear(p.Collector)
	p.graph.AddResource(widgets, widgetKind, p.now()) // and no list of it comes
	k := p.owner("o", time.Hour)
	if _, gone := p.look(t, k); !gone {
		t.Fatal("it waits beyond its deadline")
	}
	if e := told.LastEntry(); e == nil || !strings.Contains(e.Message, "have not been listed") {
		t.Errorf("users are told %+v", e)
	}
}

func TestOrphaningGoesToTheOrphaner(t *testing.T) {
	c, s := collector(t, false)
	k := show(c, s.deleting("owner", "o", metav1.FinalizerOrphanDependents))
	if err := attemptOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls()
	if n := c.orphans.queue.Len(); n != 1 {
		t.Errorf("%d owners are in the orphaner's queue", n)
	}
}

// Objects that the collector did not delete are not counted.
func TestOnlyWhatWasDeletedIsCounted(t *testing.T) {
	c, s := collector(t, false)
	for _, there := range []bool{false, true} {
		k := show(c, s.put("child", "c", ref("owner", "o")))
		if !there {
			delete(s.objects, "child") // somebody else deleted it first
		}
		if err := attemptOnce(t, c, k); err != nil {
			t.Fatal(err)
		}
		if n := c.tally.total(); n != map[bool]int64{true: 1}[there] {
			t.Errorf("there %v: %d are counted", there, n)
		}
	}
}

// The total outlives the monitor of the deleted objects.
func TestTotalKeepsTheCountsOfEndedMonitors(t *testing.T) {
	var c tally
	c.begin(configMaps)
	c.add(configMaps, policies[0])
	c.end(configMaps)
	c.add(configMaps, policies[0])
	if n := c.total(); n != 2 {
		t.Errorf("the total is %d, want 2", n)
	}
}

// Each further round of an object with very many references is expensive for the server.
func TestHeavyObjectThatKeepsChangingHasFewRounds(t *testing.T) {
	c, s := collector(t, false)
	var owners []metav1.OwnerReference
	for range heavy + 1 {
		owners = append(owners, ref("owner", "o"))
	}
	k := show(c, s.put("child", "c", owners...))
	c.graph.Deleted(configMaps, &graph.Record{Namespace: "ns", Name: "owner", UID: "o"}, c.now())
	s.before = func(call string) {
		if call == "DELETE child" {
			s.put("child", "c", owners...)
		}
	}
	if err := attemptOnce(t, c, k); err == nil {
		t.Error("an attempt without end has ended well")
	}
	if n := len(s.calls); n != 2*maxHeavyRounds {
		t.Errorf("%d calls: %v", n, s.calls)
	}
}

// believed returns how an attempt judges the owner of the object's only reference.
func believed(t *testing.T, c *Collector, o string) decide.State {
	t.Helper()
	v, ok := c.graph.View(key(o))
	if !ok {
		t.Fatal("no such object")
	}
	a := c.attempts.about(v)
	return decide.Judge(&a.view.Owners[0], "ns", c.now())
}

// The removal of the finalizer may have failed although the tombstone stays: no dependent is freed from an owner
// that exists.
func TestOwnerThatExistsDoesNotCountAsOrphaned(t *testing.T) {
	c, s := collector(t, false)
	show(c, s.put("owner", "o"))
	show(c, s.put("child", "c", ref("owner", "o")))
	c.attempts.tombstones.add("ns", "o")
	if got := believed(t, c, "c"); got != decide.Solid {
		t.Errorf("the reference is %s, want solid", got)
	}
}

// A monitor may still show an owner that a read has found gone. Here it shows the owner in foreground deletion, and
// dependents of such an owner would be deleted.
func TestOwnerCountsAsOrphanedBeforeItsMonitorKnows(t *testing.T) {
	c, s := collector(t, false)
	show(c, s.deleting("owner", "o", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents))
	k := show(c, s.put("child", "c", ref("owner", "o")))
	delete(s.objects, "owner")
	c.attempts.tombstones.add("ns", "o")
	if err := attemptOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantFree("child", "o")
}
