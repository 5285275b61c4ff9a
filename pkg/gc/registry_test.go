package gc

import "testing"

func TestRegistryReturnsTheCollectorOrWhyThereIsNone(t *testing.T) {
	r := &Registry{absent: "not yet"}
	want := func(want *Collector, why string) {
		t.Helper()
		if c, absent := r.Collector(); c != want || absent != why {
			t.Errorf("%p runs, %q; want %p, %q", c, absent, want, why)
		}
		if c, absent := r.Reported(); (c == nil) != (want == nil) || absent != why {
			t.Errorf("reports are of %v, %q; want %p, %q", c, absent, want, why)
		}
	}
	first, second := &Collector{}, &Collector{}
	want(nil, "not yet")
	r.Absent("it waits")
	want(nil, "it waits")
	r.enter(first)
	want(first, "")
	r.enter(second)
	want(second, "")
	r.leave(first) // another runs
	want(second, "")
	r.leave(second)
	want(nil, "the collector has ended")
	r.enter(first)
	r.Absent("it has to wait")
	want(first, "")
	r.leave(first)
	want(nil, "it has to wait")
}
