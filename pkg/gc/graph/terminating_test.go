package graph

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestTerminatingObjectsAreListed: every deleted object that is still there is in one of the two lists, and in one only.
func TestTerminatingObjectsAreListed(t *testing.T) {
	g := newGraph(t)
	gr := things.GroupResource()
	listed := func() string {
		t.Helper()
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(len(g.Terminating()), len(g.Collecting()))
	}
	alive := object("n", "a")
	held := *alive
	held.Deleting, held.ResourceVersion = true, "2"
	waits := held
	waits.Foreground, waits.ResourceVersion = true, "3"
	for i, step := range []struct {
		rec  *Record
		want string
	}{{alive, "0 0"}, {&waits, "0 1"}, {&held, "1 0"}, {&waits, "0 1"}, {&held, "1 0"}} {
		g.Upsert(gr, step.rec, epoch)
		if got := listed(); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
	g.Deleted(gr, &held, epoch)
	if got := listed(); got != "0 0" {
		t.Errorf("after its end: %s", got)
	}
	for i := range 2 * worthIt {
		rec := *object("n", types.UID(fmt.Sprint("many", i)))
		rec.Deleting = true
		g.Upsert(gr, &rec, epoch)
	}
	for _, n := range g.Terminating() {
		g.Deleted(gr, n.Record, epoch)
	}
	if g.terminatingRoom >= worthIt {
		t.Errorf("the list keeps room for %d", g.terminatingRoom)
	}
}

// TestFinalizersOfDeletedObjectsAreKept: those of others by name, of deleted objects alone, and never more than a few hundred bytes.
func TestFinalizersOfDeletedObjectsAreKept(t *testing.T) {
	when := metav1.NewTime(epoch)
	o := &metav1.ObjectMeta{Finalizers: []string{metav1.FinalizerDeleteDependents, "example.com/b", "example.com/a", DefinitionFinalizer}}
	if r := RecordOf(o); r.Finalizers.Names() != nil {
		t.Errorf("of an object that lives: %q", r.Finalizers.Names())
	}
	o.DeletionTimestamp = &when
	if got, want := RecordOf(o).Finalizers.Names(), []string{"example.com/b", "example.com/a", DefinitionFinalizer}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if one, other := RecordOf(o), RecordOf(o); one.Finalizers != other.Finalizers {
		t.Error("equal lists differ")
	}
	o.Finalizers = []string{strings.Repeat("x", longestFinalizer+1), "a\x00b"}
	if got := RecordOf(o).Finalizers.Names(); got != nil {
		t.Errorf("names that no server allows: %q", got)
	}
	o.Finalizers = nil
	for i := range 1000 {
		o.Finalizers = append(o.Finalizers, fmt.Sprint("example.com/", i))
	}
	if got := RecordOf(o).Finalizers.Names(); len(got) != finalizersKept {
		t.Errorf("%d names are kept", len(got))
	}
}
