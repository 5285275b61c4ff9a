package gc

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// behind shows an object in foreground deletion that has the status written by its
// controller. The object is at its third generation; the last one is the deletion
// itself.
func (p *patience) behind(t *testing.T, status any) graph.Key {
	t.Helper()
	k := p.owner("o", 0)
	p.s.objects["o"].Generation = 3
	p.s.status = map[string]any{"o": status}
	show(p.Collector, p.s.objects["o"])
	if in, gone := p.look(t, k); in != decide.SettleFor || gone {
		t.Fatalf("the next look is in %v, gone: %v", in, gone)
	}
	p.clock = p.clock.Add(decide.SettleFor)
	return k
}

func TestForegroundDeletionWaitsForALaggingController(t *testing.T) {
	p := newPatience(t, tenMinutes)
	k := p.behind(t, map[string]any{"observedGeneration": 1})
	if in, gone := p.look(t, k); in != decide.ObserveFor-decide.SettleFor || gone {
		t.Fatalf("the next look is in %v, gone: %v", in, gone)
	}
	// Once the controller has caught up, the status says so and the monitor wakes
	// the object.
	p.s.status["o"] = map[string]any{"observedGeneration": 2}
	m := p.s.objects["o"]
	m.ResourceVersion = "1000"
	woken := p.graph.Upsert(configMaps, graph.RecordOf(m), p.now())
	if len(woken) != 1 || woken[0] != k {
		t.Errorf("the change of the status wakes %v, want %v", woken, k)
	}
	if _, gone := p.look(t, k); !gone {
		t.Error("it waits for a controller that has caught up")
	}
}

// A DaemonSet's controller writes no status while its object is being deleted.
// Neither does a custom resource's operator that is gone.
func TestControllerThatSaysNothingIsNotWaitedForLonger(t *testing.T) {
	p := newPatience(t, tenMinutes)
	k := p.behind(t, map[string]any{"observedGeneration": 1})
	p.look(t, k)
	p.clock = p.clock.Add(decide.ObserveFor - decide.SettleFor - time.Nanosecond)
	if _, gone := p.look(t, k); gone {
		t.Fatal("it went too early")
	}
	p.clock = p.clock.Add(time.Nanosecond)
	if _, gone := p.look(t, k); !gone {
		t.Error("it is held up for longer")
	}
}

func TestStatusWithoutObservedGenerationIsNotWaitedFor(t *testing.T) {
	for name, status := range map[string]any{
		"no status": nil, "no such field": map[string]any{"phase": "Ready"}, "something else in it": map[string]any{"observedGeneration": "1"},
		"another status": "fine", "up to date": map[string]any{"observedGeneration": 3}, "all but the deletion": map[string]any{"observedGeneration": 2},
	} {
		p := newPatience(t, tenMinutes)
		k := p.behind(t, status)
		if _, gone := p.look(t, k); !gone {
			t.Errorf("%s: it waits", name)
		}
	}
}

func TestDeadlineDoesNotWaitForAController(t *testing.T) {
	p := newPatience(t, tenMinutes)
	k := p.behind(t, map[string]any{"observedGeneration": 1})
	p.s.objects["o"].DeletionTimestamp = &metav1.Time{Time: p.clock.Add(-time.Hour)}
	p.graph.Deleted(configMaps, graph.RecordOf(p.s.objects["o"]), p.clock)
	show(p.Collector, p.s.objects["o"])
	p.dependent("d", "o")
	p.clock = p.clock.Add(time.Second) // for the dependent
	if _, gone := p.look(t, k); !gone {
		t.Error("it waits beyond its deadline")
	}
}
