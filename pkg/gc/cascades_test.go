package gc

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/report"
)

// cascading is a graph of ConfigMaps and the memory of their cascades.
type cascading struct {
	*graph.Graph
	cascades
	now time.Time
}

func newCascading() *cascading {
	c := &cascading{Graph: graph.New(), now: time.Unix(1_000_000, 0)}
	c.SetCatalog(graph.NewCatalog([]*graph.Resource{{Name: "configmaps", Kind: "ConfigMap", Versions: []string{"v1"}, Namespaced: true, Monitored: true}}), c.now)
	c.AddResource(configMaps, schema.GroupKind{Kind: "ConfigMap"}, c.now)
	return c
}

// put shows an object; if waits is true, it is in foreground deletion.
func (c *cascading) put(uid string, waits bool, owners ...string) *graph.Record {
	rec := &graph.Record{Namespace: "ns", Name: uid, UID: types.UID(uid), ResourceVersion: "1", Deleting: waits, Foreground: waits}
	if waits {
		rec.DeletedAt = c.now.Unix()
	}
	for _, o := range owners {
		rec.References = append(rec.References, graph.Reference{APIVersion: "v1", Kind: "ConfigMap", Name: o, UID: types.UID(o), BlockOwnerDeletion: graph.True})
	}
	c.Upsert(configMaps, rec, c.now)
	return rec
}

// collect records that the collector deleted an object; if gone is true, the object goes at once.
func (c *cascading) collect(t *testing.T, uid string, gone bool) {
	t.Helper()
	v, ok := c.View(key(uid))
	if !ok {
		t.Fatalf("%s is not there", uid)
	}
	c.collected(c.Graph, &v, c.now)
	if gone {
		c.Deleted(configMaps, v.Record, c.now)
	}
}

// shown returns the cascades of a report in a short form.
func (c *cascading) shown() (all []string) {
	c.now = c.now.Add(time.Second) // later than any report that is kept
	list, _ := c.latest(c.Graph, decide.Options{}, c.now)
	for _, k := range list {
		all = append(all, fmt.Sprintf("%s %s: %d deleted, %d left", k.Root.Name, k.Policy, k.Deleted, k.Left))
	}
	return all
}

func (c *cascading) want(t *testing.T, want ...string) {
	t.Helper()
	if got := c.shown(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestCascadeKeepsItsRoot: a cascade keeps its root for generations, also after the root and all
// objects between have gone.
func TestCascadeKeepsItsRoot(t *testing.T) {
	c := newCascading()
	root := c.put("root", false)
	c.put("child", false, "root")
	c.put("grandchild", false, "child")
	c.put("last", false, "grandchild")
	c.Deleted(configMaps, root, c.now)
	c.want(t) // nothing has been collected yet
	c.collect(t, "child", true)
	c.want(t, "root background: 2 deleted, 2 left")
	c.collect(t, "grandchild", true)
	c.want(t, "root background: 3 deleted, 1 left")
	c.collect(t, "last", true)
	c.want(t, "root background: 4 deleted, 0 left")
	c.now = c.now.Add(endedKept)
	c.want(t)
	if len(c.of) > 0 {
		t.Errorf("it remembers %v", c.of)
	}
}

// TestCascadeCountsDependentsThatGoBeforeTheAnswer: the deletion of an owner may be observed, and its dependents collected, before the
// answer to the owner's DELETE.
func TestCascadeCountsDependentsThatGoBeforeTheAnswer(t *testing.T) {
	c := newCascading()
	root := c.put("root", false)
	c.put("child", false, "root")
	c.put("grandchild", false, "child")
	c.put("great-grandchild", false, "grandchild")
	c.put("last", false, "child")
	c.Deleted(configMaps, root, c.now)
	child, _ := c.View(key("child"))
	c.Deleted(configMaps, child.Record, c.now)
	c.collect(t, "grandchild", true)
	c.collected(c.Graph, &child, c.now)
	if list, _ := c.latest(c.Graph, decide.Options{}, c.now); len(list) != 1 || list[0].PerSecond != 2 {
		t.Errorf("the rate is not of both: %+v", list)
	}
	c.want(t, "root background: 3 deleted, 2 left")
	c.collect(t, "great-grandchild", true)
	c.collect(t, "last", true)
	c.want(t, "root background: 5 deleted, 0 left")
}

// TestForegroundCascadeIsShownBeforeAnythingHasGone: its root is the topmost owner that waits.
func TestForegroundCascadeIsShownBeforeAnythingHasGone(t *testing.T) {
	c := newCascading()
	c.put("root", true)
	c.put("inner", true, "root")
	c.put("leaf", false, "inner")
	c.put("other", false, "inner")
	c.want(t, "root foreground: 0 deleted, 4 left")
	c.collect(t, "leaf", true)
	c.want(t, "root foreground: 1 deleted, 3 left")
	// A cascade that is remembered under another member is shown once.
	c.collect(t, "other", true)
	c.want(t, "root foreground: 2 deleted, 2 left")
	// The policy is the root's also when it has gone.
	for _, uid := range []string{"inner", "root"} {
		v, _ := c.View(key(uid))
		c.Deleted(configMaps, v.Record, c.now)
	}
	c.want(t, "root foreground: 3 deleted, 0 left")
}

// TestObjectThatAFinalizerHoldsIsNotCountedAsDeleted: a DELETE that was accepted is not the end of the object, and a cascade that a
// finalizer holds names it and no time to go.
func TestObjectThatAFinalizerHoldsIsNotCountedAsDeleted(t *testing.T) {
	c := newCascading()
	root := c.put("root", false)
	held := *c.put("held", false, "root")
	c.Deleted(configMaps, root, c.now)
	c.collect(t, "held", false)
	held.Deleting, held.Finalizers = true, graph.FinalizersOf([]string{"example.com/hold"})
	c.Upsert(configMaps, &held, c.now)
	c.want(t, "root background: 1 deleted, 1 left")
	list, _ := c.latest(c.Graph, decide.Options{}, c.now)
	screen := strings.Join(report.Status{Running: true, Now: c.now, Cascades: list}.Screen("server", 200, 50), "\n")
	if !strings.Contains(screen, "held by configmaps/held -n ns: finalizer example.com/hold") || strings.Contains(screen, "to go") {
		t.Error(screen)
	}
	c.Deleted(configMaps, &held, c.now)
	c.want(t, "root background: 2 deleted, 0 left")
}

// TestReferenceFromAnotherNamespaceIsNoCascade: it names the UID of an object elsewhere. The reference makes no cascade, and its
// holder is no member of that object's own.
func TestReferenceFromAnotherNamespaceIsNoCascade(t *testing.T) {
	c := newCascading()
	root := *c.put("ra", false)
	child := c.put("child", false, "ra")
	stranger := func(uid string) {
		rec := *child
		rec.Namespace, rec.Name, rec.UID = "team", uid, types.UID(uid)
		c.Upsert(configMaps, &rec, c.now)
	}
	stranger("xns")
	stranger("kept")
	c.collect(t, "xns", true)
	c.want(t)
	root.Deleting, root.Foreground, root.DeletedAt, root.ResourceVersion = true, true, c.now.Unix(), "2"
	c.Upsert(configMaps, &root, c.now)
	c.want(t, "ra foreground: 0 deleted, 2 left")
	stranger("later")
	c.collect(t, "later", true)
	c.want(t, "ra foreground: 0 deleted, 2 left")
	c.collect(t, "child", true)
	c.Deleted(configMaps, &root, c.now)
	c.want(t, "ra foreground: 2 deleted, 0 left")
}

// TestGoingObjectsAreBounded: beyond the bound the deletions count at once.
func TestGoingObjectsAreBounded(t *testing.T) {
	c := newCascading()
	for i := range 2 * goingKept {
		uid := fmt.Sprint("held", i)
		c.put(uid, false, "root")
		c.collect(t, uid, false)
	}
	for _, k := range c.of {
		if len(k.going) != goingKept || k.gone != goingKept {
			t.Errorf("%d are looked for, %d count as gone", len(k.going), k.gone)
		}
	}
}

// TestHeldCascadeNamesWhatHoldsIt: a held cascade names what holds it, also long after the last deletion.
func TestHeldCascadeNamesWhatHoldsIt(t *testing.T) {
	c := newCascading()
	root := c.put("root", false)
	held := c.put("held", false, "root")
	c.put("below", false, "held")
	c.Deleted(configMaps, root, c.now)
	c.collect(t, "held", false)
	deleting := *held
	deleting.Deleting, deleting.DeletedAt = true, c.now.Unix()
	c.Upsert(configMaps, &deleting, c.now)
	c.now = c.now.Add(time.Hour)
	c.want(t, "root background: 1 deleted, 2 left")
	list, _ := c.latest(c.Graph, decide.Options{}, c.now)
	if h := list[0]; h.HeldByCount != 1 || h.HeldBy[0].Object.Name != "held" || h.HeldBy[0].Reason != string(decide.BeingDeleted) {
		t.Errorf("%+v", h)
	}
}

// TestMemoryOfCascadesIsBounded: when the memory is full, the next generation begins a cascade of
// its own, and nothing is counted twice.
func TestMemoryOfCascadesIsBounded(t *testing.T) {
	c := newCascading()
	for i := range membersKept + 100 {
		uid := fmt.Sprint("m", i)
		c.put(uid, false, "root")
		c.put("below-"+uid, false, uid)
		c.collect(t, uid, true)
	}
	if n := len(c.of); n > membersKept {
		t.Errorf("%d members are remembered", n)
	}
	c.want(t, fmt.Sprintf("root background: %d deleted, %d left", membersKept+101, membersKept-1))
}

// TestRateCoversTheLastSeconds: the rate covers only the last seconds, without the current one.
func TestRateCoversTheLastSeconds(t *testing.T) {
	k := &cascade{began: time.Unix(1000, 0)}
	for at, n := range map[int64]int{1010: 500, 1020: 100, 1021: 200, 1022: 300} {
		r := &k.recent[at%rateOver]
		if r.second < at {
			r.second, r.n = at, n
		}
	}
	for at, want := range map[int64]float64{1022: 60, 1023: 120, 1027: 60, 1029: 0} {
		if got := k.rate(time.Unix(at, 0)); got != want {
			t.Errorf("at %d: %v, want %v", at, got, want)
		}
	}
}

// TestFailuresAreRememberedUntilTheyEnd: the list also says since when each object has failed.
func TestFailuresAreRememberedUntilTheyEnd(t *testing.T) {
	c := newCascading()
	c.put("a", false)
	c.put("b", false)
	var f failures
	f.failed(key("b"), "ns", 1, fmt.Errorf("no"), c.now.Add(time.Second))
	f.failed(key("a"), "ns", 1, fmt.Errorf("denied"), c.now)
	f.failed(key("a"), "ns", 2, fmt.Errorf("denied again"), c.now.Add(time.Minute))
	f.failed(key("gone"), "ns", 1, fmt.Errorf("gone"), c.now)
	list := f.list(c.Graph)
	if len(list) != 2 || list[0].Object.Name != "a" || list[0].Failures != 2 || list[0].Error != "denied again" || !list[0].Since.Equal(c.now) {
		t.Errorf("%+v", list)
	}
	f.forget(key("a"))
	if f.of(key("a")) != "" || f.of(key("b")) != "no" || f.of(key("gone")) != "" {
		t.Errorf("%+v", f.all)
	}
	for i := range 2 * failuresKept {
		f.failed(key(fmt.Sprint(i)), "ns", 1, fmt.Errorf("no"), c.now)
	}
	if len(f.all) > failuresKept {
		t.Errorf("%d failures are remembered, want at most %d", len(f.all), failuresKept)
	}
}

// TestManyFailuresOfOneNamespaceHideNoOthers: if there are too many, those of the namespace with the most are forgotten.
func TestManyFailuresOfOneNamespaceHideNoOthers(t *testing.T) {
	var f failures
	now := time.Unix(0, 0)
	for i := range 2 * failuresKept {
		f.failed(key(fmt.Sprint("mine", i)), "mine", 1, fmt.Errorf("no"), now)
	}
	for i := range failuresKept {
		k := key(fmt.Sprint("other", i))
		f.failed(k, fmt.Sprint("other", i%7), 1, fmt.Errorf("no"), now)
		if i < failuresKept/2 && f.of(k) == "" {
			t.Fatalf("failure %d of other namespaces is not remembered", i)
		}
	}
	n, most := 0, 0
	for _, of := range f.in {
		n, most = n+of, max(most, of)
	}
	if len(f.all) != failuresKept || n != failuresKept || most > failuresKept/8+1 {
		t.Errorf("%d are remembered, counted as %v", len(f.all), f.in)
	}
	for k := range f.all {
		f.forget(k)
		f.forget(k)
	}
	if len(f.in) != 0 {
		t.Errorf("of none %v are counted", f.in)
	}
}

// TestLongErrorsAreNotKept: a webhook writes what it likes.
func TestLongErrorsAreNotKept(t *testing.T) {
	var f failures
	long := strings.Repeat("x", 1<<20)
	f.failed(key("a"), "ns", 1, errors.New(long), time.Unix(0, 0))
	if kept := f.of(key("a")); len(kept) != errorKept || unsafe.StringData(kept) == unsafe.StringData(long) {
		t.Errorf("%d bytes are kept, or all of the text", len(kept))
	}
}

// TestLongRootsAreNotRemembered: whoever writes a reference chooses its name and UID, up to the size of an object.
func TestLongRootsAreNotRemembered(t *testing.T) {
	c := newCascading()
	long := strings.Repeat("x", longestRoot)
	for i := range 10 {
		uid := fmt.Sprint("m", i)
		c.put(uid, false, long+uid)
		c.put("below-"+uid, false, uid)
		c.collect(t, uid, true)
	}
	if len(c.of) != 0 {
		t.Errorf("%d are remembered", len(c.of))
	}
}
