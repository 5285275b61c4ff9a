package gc

import (
	"testing"

	"github.com/reap-dev/reap/pkg/gc/report"
)

func TestRegistryReturnsTheCollectorOrWhyThereIsNone(t *testing.T) {
	r := &Registry{absent: report.Absence{Reason: "not yet"}}
	want := func(want *Collector, why string) {
		t.Helper()
		if c, absent := r.Collector(); c != want || absent.Reason != why {
			t.Errorf("%p runs, %q; want %p, %q", c, absent.Reason, want, why)
		}
		if c, absent := r.Reported(); (c == nil) != (want == nil) || absent.Reason != why {
			t.Errorf("reports are of %v, %q; want %p, %q", c, absent.Reason, want, why)
		}
	}
	first, second := &Collector{}, &Collector{}
	want(nil, "not yet")
	r.Absent(report.Absence{Reason: "it waits"})
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
	r.Absent(report.Absence{Reason: "it has to wait"})
	want(first, "")
	r.leave(first)
	want(nil, "it has to wait")
}
