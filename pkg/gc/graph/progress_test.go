package graph

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A wait for dependents begins when it is first seen, even if the object was being orphaned before.
func TestWaitForDependentsBeginsAfterOrphaning(t *testing.T) {
	g := newGraph(t)
	o := object("n", "o")
	o.Deleting, o.Orphan, o.DeletedAt = true, true, epoch.Unix()
	g.show(widgets, o)
	g.now = epoch.Add(time.Hour)
	g.show(widgets, waiting(object("n", "o")))
	if v, _ := g.View(key(widgets, "o")); !v.Wait.Since.Equal(g.now) {
		t.Errorf("it waits since %v", v.Wait.Since.Sub(epoch))
	}
}

// deleting returns the record as deleted so many minutes after the epoch.
func deleting(r *Record, minutes int) *Record {
	d := *r
	d.Deleting, d.DeletedAt = true, epoch.Add(time.Duration(minutes)*time.Minute).Unix()
	return &d
}

// Progress is made only when the deletion of a blocking dependent begins or ends.
func TestProgressIsOfWhatBlocks(t *testing.T) {
	g := newGraph(t)
	progress := func(what string, minutes int) {
		t.Helper()
		if v, _ := g.View(key(widgets, "o")); !v.Wait.Progress.Equal(epoch.Add(time.Duration(minutes) * time.Minute)) {
			t.Errorf("%s: the last progress was after %v", what, v.Wait.Progress.Sub(epoch))
		}
	}
	g.now = epoch.Add(time.Hour)
	g.show(things, object("n", "blocks", blocking(to(widgets, "o"))))
	g.show(things, deleting(object("n", "free", to(widgets, "o")), 20))
	o := waiting(object("n", "o"))
	o.DeletedAt = epoch.Add(10 * time.Minute).Unix()
	g.show(widgets, o)
	progress("one that does not block was deleted", 10)
	g.show(things, deleting(object("n", "early", blocking(to(widgets, "o"))), 5))
	progress("one was deleted before", 10)
	g.show(things, deleting(object("n", "late", blocking(to(widgets, "o"))), 30))
	progress("one was deleted since", 30)
}

// Dependents created after the owner's deletion do not extend its wait: a controller may go on creating them.
func TestWhatIsCreatedAfterADeletionIsNoProgress(t *testing.T) {
	made := func(r *Record, second int64) *Record {
		c := *r
		c.CreatedAt = uint32(epoch.Unix() + second)
		return &c
	}
	later := epoch.Add(time.Hour)
	for name, c := range map[string]struct {
		created int64 // seconds after the owner's deletion
		counts  bool
	}{"before": {-1, true}, "in the same second": {0, true}, "after": {1, false}} {
		d := made(object("n", "d", blocking(to(widgets, "o"))), c.created)
		below := made(object("n", "below", blocking(to(things, "d"))), c.created)
		for what, change := range map[string]func(g *checked){
			"it is deleted":                          func(g *checked) { g.show(things, deleting(d, 60)) },
			"it goes":                                func(g *checked) { g.end(things, d) },
			"one below it goes, and it names nobody": func(g *checked) { g.end(mirrors, below); g.show(things, made(object("n", "d"), c.created)) },
		} {
			g := newGraph(t)
			g.show(widgets, waiting(object("n", "o")))
			g.show(things, d)
			g.show(mirrors, below)
			want := Survey{}
			if c.counts {
				want.Descendants = 2
			}
			if s, _ := g.Survey(key(widgets, "o")); s != want {
				t.Errorf("created %s: a survey finds %+v, want %+v", name, s, want)
			}
			g.now = later
			change(g)
			v, _ := g.View(key(widgets, "o"))
			s, _ := g.Survey(key(widgets, "o"))
			if v.Wait.Progress.Equal(later) != c.counts || s.Progress.Equal(later) != c.counts {
				t.Errorf("created %s, %s: progress after %s, and %+v", name, what, v.Wait.Progress.Sub(epoch), s)
			}
		}
	}
}

// A dependent created after the root's deletion, and before its own owner's, counts for its own owner alone.
func TestWhatIsCreatedAfterADeletionCountsForItsOwnOwner(t *testing.T) {
	g := newGraph(t)
	g.show(widgets, waiting(object("n", "o")))
	p := object("n", "p", blocking(to(widgets, "o")))
	g.show(things, p)
	d := object("n", "d", blocking(to(things, "p")))
	d.CreatedAt = uint32(epoch.Unix() + 60)
	g.show(mirrors, d)
	if s, _ := g.Survey(key(widgets, "o")); s.Descendants != 1 {
		t.Errorf("below the owner that was deleted first: %+v", s)
	}
	again := waiting(p)
	again.DeletedAt = epoch.Unix() + 61
	g.show(things, again)
	g.now = epoch.Add(time.Hour)
	g.end(mirrors, d)
	if v, _ := g.View(key(things, "p")); !v.Wait.Progress.Equal(g.now) {
		t.Errorf("its own owner's progress was after %s", v.Wait.Progress.Sub(epoch))
	}
}

// After a restart too, the deletion of a dependent that was created later is no progress.
func TestWaitDoesNotBeginWithWhatWasCreatedAfterTheDeletion(t *testing.T) {
	d := deleting(object("n", "d", blocking(to(widgets, "o"))), 30)
	d.CreatedAt = uint32(epoch.Unix() + 1)
	for name, list := range map[string]func(*checked){
		"owner first":     func(g *checked) { g.show(widgets, waiting(object("n", "o"))); g.show(things, d) },
		"dependent first": func(g *checked) { g.show(things, d); g.show(widgets, waiting(object("n", "o"))) },
	} {
		g := newGraph(t)
		g.now = epoch.Add(time.Hour)
		list(g)
		if v, _ := g.View(key(widgets, "o")); !v.Wait.Progress.Equal(epoch) {
			t.Errorf("%s: progress after %s", name, v.Wait.Progress.Sub(epoch))
		}
	}
}

// Losses of dependents are noted while an owner waits, and no longer.
func TestLostDependentsAreNotedOnlyWhileAnOwnerWaits(t *testing.T) {
	g := newGraph(t)
	lose := func() int {
		t.Helper()
		g.show(widgets, object("n", "p"))
		g.show(things, object("n", "d", to(widgets, "p")))
		g.end(things, object("n", "d"))
		return len(g.losses)
	}
	g.show(widgets, object("n", "p"))
	g.show(things, deleting(object("n", "d", to(widgets, "p")), 0))
	if n := len(g.losses); n != 0 {
		t.Errorf("%d losses are noted though nobody waits", n)
	}
	g.show(widgets, waiting(object("n", "o")))
	if n := lose(); n != 1 {
		t.Errorf("%d losses are noted", n)
	}
	g.end(widgets, object("n", "o"))
	if n := len(g.losses); n != 0 {
		t.Errorf("%d losses are kept though nobody waits any more", n)
	}
}

func TestSurveyCountsWhatIsBelow(t *testing.T) {
	g := newGraph(t)
	g.show(widgets, waiting(object("n", "o")))
	survey := func(descendants int) {
		t.Helper()
		if s, ok := g.Survey(key(widgets, "o")); !ok || s.Descendants != descendants || !s.Progress.IsZero() {
			t.Errorf("%+v; want %d", s, descendants)
		}
	}
	survey(0)
	for _, d := range []*Record{
		object("n", "a", to(widgets, "o")), object("n", "b", to(widgets, "o")),
		object("n", "c", to(things, "a")), object("n", "d", to(things, "b"), to(things, "a")),
		object("n", "e", to(things, "c")), object("n", "f", to(things, "d")),
	} {
		g.show(things, d)
	}
	survey(6)
}

// The last loss counts, whichever is found first.
func TestSurveyFindsTheLastLoss(t *testing.T) {
	for _, order := range [][]types.UID{{"c", "d"}, {"d", "c"}} {
		g := newGraph(t)
		g.show(widgets, waiting(object("n", "o")))
		for _, d := range []*Record{
			object("n", "a", to(widgets, "o")), object("n", "b", to(widgets, "o")), object("n", "c", to(things, "a")), object("n", "d", to(things, "b")),
		} {
			g.show(things, d)
		}
		for _, uid := range order {
			g.now = g.now.Add(time.Minute)
			g.end(things, object("n", uid))
		}
		if s, _ := g.Survey(key(widgets, "o")); s.Descendants != 2 || !s.Progress.Equal(g.now) {
			t.Errorf("%v: %d descendants, progress after %v", order, s.Descendants, s.Progress.Sub(epoch))
		}
	}
}

func TestRecordOfAnAnnotation(t *testing.T) {
	for value, want := range map[string]time.Duration{"": 0, "soon": 0, "5m": 5 * time.Minute, "never": NoTimeout, "0": NoTimeout, "0s": NoTimeout, "-1s": NoTimeout} {
		m := &metav1.ObjectMeta{Annotations: map[string]string{SyncTimeoutAnnotation: value}, Finalizers: []string{metav1.FinalizerDeleteDependents}}
		if got := RecordOf(m).SyncTimeout; got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
	both := RecordOf(&metav1.ObjectMeta{Finalizers: []string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents}})
	if !both.Foreground || !both.Orphan {
		t.Errorf("of two finalizers: %+v", both)
	}
}

// An unset flag is not written: other clients compare the whole reference.
func TestReferenceIsWrittenAsItWas(t *testing.T) {
	yes, no := true, false
	for _, flag := range []*bool{nil, &yes, &no} {
		r := metav1.OwnerReference{APIVersion: "v1", Kind: "Thing", Name: "o", UID: "o", Controller: flag, BlockOwnerDeletion: flag}
		got := ReferenceOf(r).OwnerReference()
		for _, f := range []*bool{got.Controller, got.BlockOwnerDeletion} {
			if (f == nil) != (flag == nil) || f != nil && *f != *flag {
				t.Errorf("%v becomes %v", flag, f)
			}
		}
	}
}
