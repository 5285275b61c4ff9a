package gc

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// patience is a collector whose clock and timeout the test sets.
type patience struct {
	*Collector
	s     *store
	clock time.Time
}

func newPatience(t *testing.T, timeout Timeout) *patience {
	c, s := collector(t, false)
	synced(c)
	p := &patience{Collector: c, s: s, clock: time.Unix(1_000_000, 0)}
	c.now = func() time.Time { return p.clock }
	c.timeout = timeout
	c.synced = p.clock.Add(-time.Hour)
	return p
}

// owner shows an object that was deleted in the foreground some time ago.
func (p *patience) owner(name string, ago time.Duration, owners ...metav1.OwnerReference) graph.Key {
	m := p.s.deleting(name, types.UID(name), metav1.FinalizerDeleteDependents)
	m.DeletionTimestamp = &metav1.Time{Time: p.clock.Add(-ago)}
	m.OwnerReferences = owners
	return show(p.Collector, m)
}

// dependent shows an object that blocks an owner and never goes.
func (p *patience) dependent(name, owner string) *metav1.ObjectMeta {
	m := p.s.put(name, types.UID(name), blocking(owner, types.UID(owner)))
	show(p.Collector, m)
	return m
}

// look decides about an object once. It returns how long from now the object wants
// to be looked at again, or that it was released.
func (p *patience) look(t *testing.T, k graph.Key) (in time.Duration, released bool) {
	t.Helper()
	again, err := p.attempts.run(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	if !p.s.has(string(k.UID)) {
		return 0, true
	}
	if again.IsZero() {
		return 0, false
	}
	return again.Sub(p.clock), false
}

var tenMinutes = Timeout{Base: 10 * time.Minute, PerDependent: time.Second}

func TestDeadlineCountsFromTheDeletion(t *testing.T) {
	p := newPatience(t, tenMinutes)
	k := p.owner("o", 4*time.Minute)
	p.dependent("d", "o")
	if in, gone := p.look(t, k); in != 6*time.Minute || gone {
		t.Fatalf("the next look is in %v, gone: %v", in, gone)
	}
	// When the base timeout expires, the remaining dependents are counted.
	p.clock = p.clock.Add(6 * time.Minute)
	if in, gone := p.look(t, k); in != time.Second || gone {
		t.Fatalf("the next look is in %v, gone: %v", in, gone)
	}
	p.clock = p.clock.Add(time.Second)
	if _, gone := p.look(t, k); !gone {
		t.Fatal("it waits beyond its deadline")
	}
}

func TestProgressRestartsTheDeadline(t *testing.T) {
	p := newPatience(t, tenMinutes)
	k := p.owner("o", 0)
	// A grandchild's end counts too.
	p.dependent("d", "o")
	grandchild := p.dependent("g", "d")
	p.look(t, k)
	p.clock = p.clock.Add(9 * time.Minute)
	p.graph.Deleted(configMaps, graph.RecordOf(grandchild), p.now())
	if in, _ := p.look(t, k); in != time.Minute {
		t.Fatalf("the next look is in %v, want 1m", in)
	}
	p.clock = p.clock.Add(time.Minute)
	if in, _ := p.look(t, k); in != 9*time.Minute+time.Second { // and a second for the dependent
		t.Fatalf("the next look is in %v, want 9m1s", in)
	}
	// So does the deletion of a dependent that something holds.
	p.clock = p.clock.Add(9 * time.Minute)
	held := p.s.deleting("d", "d", "somebody/else")
	held.DeletionTimestamp = &metav1.Time{Time: p.clock}
	held.OwnerReferences = []metav1.OwnerReference{blocking("o", "o")}
	show(p.Collector, held)
	if in, _ := p.look(t, k); in != 10*time.Minute {
		t.Fatalf("the next look is in %v, want 10m", in)
	}
	// An update that changes nothing does not.
	p.clock = p.clock.Add(9 * time.Minute)
	show(p.Collector, held)
	if in, _ := p.look(t, k); in != time.Minute {
		t.Fatalf("the next look is in %v, want 1m", in)
	}
}

// A controller that keeps replacing dependents does not block their owner forever.
func TestReplacedDependentsDoNotRestartTheDeadline(t *testing.T) {
	p := newPatience(t, Timeout{Base: 10 * time.Minute})
	k := p.owner("o", 0)
	p.dependent("first", "o")
	last := p.dependent("0", "o")
	for i := range 10 {
		if in, gone := p.look(t, k); gone || in != time.Duration(10-i)*time.Minute {
			t.Fatalf("after %d minutes: the next look is in %s, gone: %v", i, in, gone)
		}
		p.clock = p.clock.Add(time.Minute)
		name := strconv.Itoa(i + 1)
		next := p.s.put(name, types.UID(name), blocking("o", "o"))
		next.CreationTimestamp = metav1.NewTime(p.clock)
		show(p.Collector, next)
		if i > 0 { // the first that goes was there before the deletion
			p.graph.Deleted(configMaps, graph.RecordOf(last), p.now())
		}
		last = next
	}
	if _, gone := p.look(t, k); !gone {
		t.Fatal("it waits beyond its deadline")
	}
}

// The object itself is not looked at when a distant descendant goes.
func TestProgressCountsFromWhenItWasMade(t *testing.T) {
	p := newPatience(t, tenMinutes)
	k := p.owner("o", 0)
	p.dependent("d", "o")
	grandchild := p.dependent("g", "d")
	p.look(t, k)
	p.clock = p.clock.Add(time.Minute)
	p.graph.Deleted(configMaps, graph.RecordOf(grandchild), p.now())
	p.clock = p.clock.Add(9 * time.Minute)
	if in, _ := p.look(t, k); in != time.Minute+time.Second { // and a second for the dependent
		t.Fatalf("the next look is in %v, want 1m1s", in)
	}
}

// Users are told what blocked the object, even if the event of its release arrives
// at once.
func TestTimeoutNamesWhatBlocked(t *testing.T) {
	p := newPatience(t, tenMinutes)
	log, logged := logtest.NewNullLogger()
	p.tell.log = logrus.NewEntry(log)
	k := p.owner("o", time.Hour)
	p.dependent("d", "o")
	p.s.before = func(call string) {
		if call == "PATCH o" {
			show(p.Collector, &metav1.ObjectMeta{Namespace: "ns", Name: "o", UID: "o", DeletionTimestamp: &metav1.Time{Time: p.clock}})
		}
	}
	if _, gone := p.look(t, k); !gone {
		t.Fatal("it waits beyond its deadline")
	}
	if got := logged.LastEntry(); got == nil || !strings.Contains(got.Message, "1 still blocked") || !strings.Contains(got.Message, "(configmaps/d)") {
		t.Errorf("users are told %+v", got)
	}
}

func TestDeadlineIsKeptAcrossARestartAndLeavesTimeAfterIt(t *testing.T) {
	p := newPatience(t, tenMinutes)
	p.synced = p.clock
	k := p.owner("o", 24*time.Hour) // deleted long before this process began
	p.dependent("d", "o")
	if in, gone := p.look(t, k); in != afterSync || gone {
		t.Fatalf("the next look is in %v, gone: %v", in, gone)
	}
	p.clock = p.clock.Add(afterSync)
	if _, gone := p.look(t, k); !gone {
		t.Fatal("the deadline started over")
	}
}

func TestFutureTimestampCountsAsNow(t *testing.T) {
	p := newPatience(t, tenMinutes)
	k := p.owner("o", -48*time.Hour) // the clock was wrong then, or is now
	p.dependent("d", "o")
	if in, _ := p.look(t, k); in != 10*time.Minute {
		t.Fatalf("the next look is in %v, want 10m", in)
	}
}

func TestAnnotationOverridesTheTimeout(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"1m": time.Minute, "never": 0, "0": 0, "-5m": 0, "": 10 * time.Minute, "soon": 10 * time.Minute,
	} {
		p := newPatience(t, tenMinutes)
		p.owner("o", 0)
		m := p.s.objects["o"]
		m.Annotations = map[string]string{graph.SyncTimeoutAnnotation: value}
		k := show(p.Collector, m)
		p.dependent("d", "o")
		if in, _ := p.look(t, k); in != want {
			t.Errorf("%q: again in %v, want %v", value, in, want)
		}
	}
}

func TestZeroTimeoutWaitsForEver(t *testing.T) {
	p := newPatience(t, Timeout{})
	k := p.owner("o", 1000*time.Hour)
	p.dependent("d", "o")
	if in, gone := p.look(t, k); in != 0 || gone {
		t.Errorf("the next look is in %v, gone: %v", in, gone)
	}
}
