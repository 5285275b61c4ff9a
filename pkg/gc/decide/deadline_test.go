package decide

import (
	"testing"
	"time"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

func TestDeadline(t *testing.T) {
	at := func(m int) time.Time { return now.Add(time.Duration(m) * time.Minute) }
	for _, c := range []struct {
		name    string
		own     time.Duration // the object's annotation
		options Options
		want    time.Time
	}{
		{"none", 0, Options{}, time.Time{}},
		{"the collector's", 0, Options{Timeout: Timeout{Base: 10 * time.Minute}}, at(10)},
		{"the object's", 5 * time.Minute, Options{Timeout: Timeout{Base: 10 * time.Minute}}, at(5)},
		{"the object's, and the collector has none", 5 * time.Minute, Options{}, at(5)},
		{"the object wants none", graph.NoTimeout, Options{Timeout: Timeout{Base: 10 * time.Minute}}, time.Time{}},
		{"not before a time", 0, Options{Timeout: Timeout{Base: 10 * time.Minute}, NotBefore: at(11)}, at(11)},
		{"paused before, within, and since", 0, Options{Timeout: Timeout{Base: 10 * time.Minute}, Pauses: Pauses{{at(-9), at(-8)}, {at(-1), at(1)}, {at(2), at(4)}, {From: at(8)}}}, at(14)},
	} {
		v := &graph.View{Record: &graph.Record{SyncTimeout: c.own}, Wait: graph.Wait{Progress: now}}
		if got, survey := Deadline(v, c.options, at(9)); !got.Equal(c.want) && !survey {
			t.Errorf("%s: %v, want %v", c.name, got.Sub(now), c.want.Sub(now))
		}
	}
}

// TestDeadlineIsLookedBehindOnlyWhenItHasPassed: descendants are not counted before the deadline
// has passed.
func TestDeadlineIsLookedBehindOnlyWhenItHasPassed(t *testing.T) {
	o := Options{Timeout: Timeout{Base: time.Minute, PerDependent: time.Second}}
	v := &graph.View{Record: waiter, Wait: graph.Wait{Progress: now}}
	for after, want := range map[time.Duration]bool{time.Minute - 1: false, time.Minute: true} {
		if deadline, survey := Deadline(v, o, now.Add(after)); survey != want || !deadline.Equal(now.Add(time.Minute)) {
			t.Errorf("after %s: %v, survey %v", after, deadline, survey)
		}
	}
	o.NotBefore = now.Add(time.Hour)
	if deadline, survey := Deadline(v, o, now.Add(2*time.Minute)); survey || !deadline.Equal(o.NotBefore) {
		t.Errorf("%v, survey %v", deadline, survey)
	}
}

func TestPausesWithin(t *testing.T) {
	at := func(m int) time.Time { return now.Add(time.Duration(m) * time.Minute) }
	p := Pauses{{at(-9), at(-5)}, {at(-1), at(1)}, {at(2), at(3)}, {at(8), at(12)}, {at(20), at(21)}, {From: at(30)}}
	for to, want := range map[int]time.Duration{0: 0, 1: time.Minute, 5: 2 * time.Minute, 10: 4 * time.Minute, 25: 7 * time.Minute, 32: 9 * time.Minute} {
		if got := p.Within(now, at(to)); got != want {
			t.Errorf("within %d minutes: %s, want %s", to, got, want)
		}
	}
}

// A pause extends the deadline, whether or not the descendants have been counted.
func TestPauseExtendsTheDeadline(t *testing.T) {
	o := Options{Timeout: Timeout{Base: time.Minute, PerDependent: time.Second}, Pauses: Pauses{{now.Add(30 * time.Second), now.Add(90 * time.Second)}}}
	v := &graph.View{Record: waiter, Wait: graph.Wait{Progress: now}, Survey: &graph.Survey{Descendants: 5, Progress: now.Add(10 * time.Second)}}
	if deadline, survey := Deadline(v, o, now.Add(3*time.Minute)); survey || !deadline.Equal(now.Add(135*time.Second)) {
		t.Errorf("after %s, survey %v", deadline.Sub(now), survey)
	}
}
