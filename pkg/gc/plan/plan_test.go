package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

const (
	background = metav1.DeletePropagationBackground
	foreground = metav1.DeletePropagationForeground
	orphan     = metav1.DeletePropagationOrphan
)

var now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// resources by kind; a Shadow has no monitor.
var resources = map[string]*graph.Resource{
	"Thing":      {Name: "things", Kind: "Thing", Versions: []string{"v1"}, Namespaced: true, Monitored: true},
	"Pod":        {Name: "pods", Kind: "Pod", Versions: []string{"v1"}, Namespaced: true, Monitored: true},
	"Shadow":     {Name: "shadows", Kind: "Shadow", Versions: []string{"v1"}, Namespaced: true},
	"Claim":      {Name: "persistentvolumeclaims", Kind: "Claim", Versions: []string{"v1"}, Namespaced: true, Monitored: true},
	"Volume":     {Name: "persistentvolumes", Kind: "Volume", Versions: []string{"v1"}, Monitored: true},
	"Job":        {Group: "batch", Name: "jobs", Kind: "Job", Versions: []string{"v1"}, Namespaced: true, Monitored: true},
	"Widget":     {Group: "ex.io", Name: "widgets", Kind: "Widget", Versions: []string{"v1"}, Namespaced: true, Monitored: true},
	"World":      {Group: "ex.io", Name: "worlds", Kind: "World", Versions: []string{"v1"}, Monitored: true},
	"Namespace":  {Name: "namespaces", Kind: "Namespace", Versions: []string{"v1"}, Monitored: true},
	"Definition": {Group: "apiextensions.k8s.io", Name: "customresourcedefinitions", Kind: "Definition", Versions: []string{"v1"}, Monitored: true},
}

// cluster is a graph that plans are made for.
type cluster struct {
	*graph.Graph
	kinds map[types.UID]string
}

func newCluster() *cluster {
	c := &cluster{graph.New(), map[types.UID]string{}}
	var all []*graph.Resource
	for _, r := range resources {
		all = append(all, r)
	}
	c.SetCatalog(graph.NewCatalog(all), now)
	for _, r := range all {
		if r.Monitored {
			c.AddResource(r.GroupResource(), r.GroupKind(), now)
			c.Listed(r.GroupResource(), now)
		}
	}
	return c
}

// put adds an object, whose name is its UID, with blocking references to others.
func (c *cluster) put(kind, namespace string, rec graph.Record, owners ...string) {
	rec.Namespace, rec.UID, rec.ResourceVersion = namespace, types.UID(rec.Name), "5"
	for _, o := range owners {
		rec.References = append(rec.References, c.ref(o))
	}
	c.kinds[rec.UID] = kind
	c.Upsert(resources[kind].GroupResource(), &rec, now)
}

// ref returns a reference to an object of the cluster by UID, or to another as Kind/uid.
func (c *cluster) ref(to string) graph.Reference {
	kind, uid, another := strings.Cut(to, "/")
	if !another {
		kind, uid = c.kinds[types.UID(to)], to
	}
	api := "v1"
	if r := resources[kind]; r != nil && r.Group != "" {
		api = r.Group + "/v1"
	}
	return graph.Reference{APIVersion: api, Kind: kind, Name: uid, UID: types.UID(uid), BlockOwnerDeletion: graph.True}
}

func (c *cluster) key(uid string) graph.Key {
	return graph.Key{Resource: resources[c.kinds[types.UID(uid)]].GroupResource(), UID: types.UID(uid)}
}

// expect compares a result with lines such as "gone a", in the order of the result. What goes ends once.
func expect(t *testing.T, res *Result, want ...string) {
	t.Helper()
	ends := make([]int, len(res.Objects))
	for _, e := range res.Events {
		if e.What == Ended {
			ends[e.Object]++
		}
	}
	var got []string
	for i, o := range res.Objects {
		if (o.Fate == Gone) != (ends[i] == 1) || ends[i] > 1 {
			t.Errorf("%s is %s and ends %d times", o.Record.Name, o.Fate, ends[i])
		}
		text := string(o.Fate) + " " + o.Record.Name
		if o.Fate != Gone {
			text += " " + string(o.Held)
		}
		if o.TimedOut {
			text += " after " + o.At.String()
		}
		if o.Uncertain {
			text += " uncertain"
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func must(res *Result, err error) *Result {
	if err != nil {
		panic(err)
	}
	return res
}

func (c *cluster) delete(p metav1.DeletionPropagation, rules Rules, uids ...string) *Result {
	var keys []graph.Key
	for _, uid := range uids {
		keys = append(keys, c.key(uid))
	}
	return must(Take(c.Graph, keys).Delete(context.Background(), p, rules, now))
}

// object returns what becomes of an object, by its name.
func object(t *testing.T, res *Result, name string) *Object {
	t.Helper()
	for i := range res.Objects {
		if res.Objects[i].Record.Name == name {
			return &res.Objects[i]
		}
	}
	t.Fatalf("the plan does not name %s", name)
	return nil
}

func TestNamespaceTakesItsContentsPodsFirst(t *testing.T) {
	c := newCluster()
	c.put("Namespace", "", graph.Record{Name: "ns"})
	c.put("Thing", "ns", graph.Record{Name: "a"})
	c.put("Pod", "ns", graph.Record{Name: "z"})
	c.put("Thing", "ns", graph.Record{Name: "waits", Deleting: true, Foreground: true, DeletedAt: now.Unix()})
	c.put("Thing", "ns", graph.Record{Name: "holds", OtherFinalizers: true}, "waits")
	c.put("Thing", "elsewhere", graph.Record{Name: "e"})
	c.put("World", "", graph.Record{Name: "outside"}, "ns")
	expect(t, c.delete(background, Rules{}, "ns"), "gone z", "gone a", "gone waits", "stuck ns contents", "stuck holds other-finalizer", "unchanged outside owner-solid")

	c.put("Thing", "ns", graph.Record{Name: "holds"}, "waits")
	expect(t, c.delete(background, Rules{}, "ns"), "gone z", "gone a", "gone holds", "gone waits", "gone ns", "gone outside")

	c.put("Pod", "ns", graph.Record{Name: "z", OtherFinalizers: true})
	res := c.delete(background, Rules{}, "ns")
	expect(t, res, "gone holds", "gone waits", "stuck ns contents", "stuck z other-finalizer", "unchanged outside owner-solid")
	if len(res.Notes) != 1 || res.Notes[0].What != ForeignFinalizer {
		t.Errorf("the notes are %v, want one about the foreign finalizer", res.Notes)
	}
}

// A namespace waits only for what is in it. A second DELETE gives it no other policy.
func TestNamespaceWaitsForItsContentsAlone(t *testing.T) {
	c := newCluster()
	c.put("Namespace", "", graph.Record{Name: "ns", OtherFinalizers: true})
	c.put("Thing", "ns", graph.Record{Name: "a"})
	expect(t, c.delete(background, Rules{}, "a", "ns"), "gone a", "stuck ns other-finalizer")

	c.put("Namespace", "", graph.Record{Name: "ns"})
	expect(t, c.delete(background, Rules{}, "a", "ns"), "gone a", "gone ns")

	c.put("Namespace", "", graph.Record{Name: "ns", Deleting: true, DeletedAt: now.Unix()})
	c.put("World", "", graph.Record{Name: "held", OtherFinalizers: true}, "ns")
	expect(t, c.delete(foreground, Rules{}, "ns"), "gone a", "gone ns", "stuck held other-finalizer")
}

// A pod whose containers are stopping already has no finalizer, and goes by itself.
func TestPodThatIsStoppingGoes(t *testing.T) {
	for name, want := range map[string][]string{"ns": {"gone pod", "gone cm", "gone set", "gone ns"}, "set": {"gone pod", "gone set"}, "pod": {"gone pod"}} {
		c := newCluster()
		c.put("Namespace", "", graph.Record{Name: "ns"})
		c.put("Thing", "ns", graph.Record{Name: "set"})
		c.put("Thing", "ns", graph.Record{Name: "cm"})
		c.put("Pod", "ns", graph.Record{Name: "pod", Deleting: true, DeletedAt: now.Add(-10 * time.Second).Unix()}, "set")
		res := c.delete(foreground, Rules{Options: decide.Options{Timeout: decide.Timeout{Base: 10 * time.Minute}}}, name)
		expect(t, res, want...)
		if o := object(t, res, "pod"); o.Reason != Deleted && name != "pod" {
			t.Errorf("the pod goes since %s", o.Reason)
		}
		if !slices.ContainsFunc(res.Notes, func(n Note) bool { return n.What == PodGrace }) {
			t.Errorf("%s: nothing says that the pod takes its time: %v", name, res.Notes)
		}
		if set := res.Objects[len(res.Objects)-1]; name == "set" && set.Step <= res.Objects[0].Step {
			t.Errorf("%s goes at step %d, and waits for the pod, which goes at %d", set.Record.Name, set.Step, res.Objects[0].Step)
		}
	}
}

func TestDefinitionTakesItsObjects(t *testing.T) {
	c := newCluster()
	c.put("Definition", "", graph.Record{Name: "widgets.ex.io"})
	c.put("Widget", "m", graph.Record{Name: "w"})
	c.put("Widget", "n", graph.Record{Name: "kept", Orphan: true})
	c.put("Thing", "m", graph.Record{Name: "t"}, "w")
	c.put("Thing", "n", graph.Record{Name: "free"}, "kept")
	c.put("World", "", graph.Record{Name: "other"})
	expect(t, c.delete(background, Rules{}, "widgets.ex.io"), "gone w", "gone t", "gone kept", "gone widgets.ex.io", "freed free no-references")
}

// A namespace that goes because its owner does is emptied as well.
func TestCascadeEmptiesNamespaces(t *testing.T) {
	c := newCluster()
	c.put("World", "", graph.Record{Name: "root"})
	c.put("Namespace", "", graph.Record{Name: "ns"}, "root")
	c.put("Thing", "ns", graph.Record{Name: "a"})
	c.put("Thing", "ns", graph.Record{Name: "b"}, "a")
	res := c.delete(background, Rules{}, "root")
	expect(t, res, "gone root", "gone a", "gone b", "gone ns")
	if ns := res.Objects[3]; ns.Reason != Reason(decide.OwnersDangling) || res.Objects[ns.By].Record.Name != "root" || res.Objects[1].Reason != InNamespace {
		t.Errorf("%+v", res.Objects)
	}
}

func TestPolicyIsTheResourcesOwnByDefault(t *testing.T) {
	for policy, want := range map[metav1.DeletionPropagation]string{"": "freed", background: "gone", foreground: "gone", orphan: "freed"} {
		c := newCluster()
		c.put("Job", "n", graph.Record{Name: "job"})
		c.put("Pod", "n", graph.Record{Name: "pod"}, "job")
		for _, o := range c.delete(policy, Rules{}, "job").Objects {
			if o.Record.Name == "pod" && string(o.Fate) != want {
				t.Errorf("policy %q: the pod is %s, want %s", policy, o.Fate, want)
			}
		}
	}
}

// A finalizer that the object has already comes before its resource's default.
func TestPolicyIsThatOfTheFinalizerByDefault(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner", Foreground: true})
	c.put("Thing", "n", graph.Record{Name: "held", OtherFinalizers: true}, "owner")
	expect(t, c.delete("", Rules{}, "owner"), "stuck held other-finalizer", "stuck owner waits-for-dependent")
}

// A target that was being deleted before is in the plan, and its controller has reacted already.
func TestTargetThatWasBeingDeletedBefore(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "set"})
	ref := c.ref("set")
	ref.Controller = graph.True
	c.put("Thing", "n", graph.Record{Name: "target", OtherFinalizers: true, Deleting: true, DeletedAt: now.Unix(), References: []graph.Reference{ref}})
	res := c.delete(background, Rules{}, "target")
	expect(t, res, "stuck target other-finalizer")
	if o := object(t, res, "target"); o.Reason != Deleted || o.Policy != "" {
		t.Errorf("the reason is %q, the policy %q", o.Reason, o.Policy)
	}
	if len(res.Notes) != 1 || res.Notes[0].What != ForeignFinalizer {
		t.Errorf("the notes are %v, want one about the finalizer", res.Notes)
	}
}

func TestTimeoutOfAForegroundDeletion(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	c.put("Thing", "n", graph.Record{Name: "veto"}, "owner", "Nonsense/x")
	rules := Rules{Options: decide.Options{Timeout: decide.Timeout{Base: time.Minute, PerDependent: time.Second}}}
	expect(t, c.delete(foreground, rules, "owner"), "gone owner after 1m1s", "unchanged veto owner-unknown")
	expect(t, c.delete(foreground, Rules{}, "owner"), "stuck owner waits-for-dependent", "unchanged veto owner-unknown")
	c.put("Thing", "n", graph.Record{Name: "owner", SyncTimeout: graph.NoTimeout})
	expect(t, c.delete(foreground, rules, "owner"), "stuck owner waits-for-dependent", "unchanged veto owner-unknown")
}

// An owner that no monitor shows and nobody has read does not count as absent.
func TestOwnerThatNobodyCanSeeKeeps(t *testing.T) {
	for _, kind := range []string{"Shadow", "Widget"} {
		c := newCluster()
		c.SetReadable(resources["Widget"].GroupResource(), false, now)
		c.put("Thing", "n", graph.Record{Name: "owner"})
		c.put("Thing", "n", graph.Record{Name: "d"}, "owner", kind+"/x")
		w := Take(c.Graph, []graph.Key{c.key("owner")})
		unseen := w.Unseen(now, 10)
		if len(unseen) != 1 || unseen[0].Reference.Kind != kind {
			t.Fatalf("%s: unseen are %v", kind, unseen)
		}
		res := must(w.Delete(t.Context(), background, Rules{}, now))
		expect(t, res, "gone owner", "freed d owner-solid")
		if len(res.Notes) != 1 || res.Notes[0].What != UnseenOwner {
			t.Errorf("%s: notes: %v", kind, res.Notes)
		}
		w.Learn("x", unseen[0].At, graph.Fact{State: graph.Present, Seen: now.Add(-time.Hour)})
		if res := must(w.Delete(t.Context(), background, Rules{}, now)); len(res.Notes) != 0 {
			t.Errorf("%s: notes on an owner that was read an hour ago: %v", kind, res.Notes)
		}
		w.Learn("x", unseen[0].At, graph.Fact{State: graph.Absent})
		expect(t, must(w.Delete(t.Context(), background, Rules{}, now)), "gone owner", "gone d")
	}
}

// An owner that ends is absent also under a resource that no monitor shows, but only under its own name.
func TestOwnerEndsUnderAllItsResources(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	same := c.ref("Shadow/owner")
	other := same
	other.Name = "other"
	c.put("Thing", "n", graph.Record{Name: "d", References: []graph.Reference{same}})
	c.put("Thing", "n", graph.Record{Name: "e", References: []graph.Reference{other}})
	expect(t, c.delete(background, Rules{}, "owner"), "gone owner", "gone d", "unchanged e owner-solid")
}

// twin shows an object under another resource, too; in another namespace or under another name it is another object with the
// same UID.
func (c *cluster) twin(kind, namespace string, uid types.UID, rec graph.Record) {
	rec.Namespace, rec.UID, rec.ResourceVersion = namespace, uid, "5"
	c.Upsert(resources[kind].GroupResource(), &rec, now)
}

func TestOneObjectUnderTwoResources(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	c.put("Thing", "n", graph.Record{Name: "d", OtherFinalizers: true}, "owner")
	c.twin("Widget", "n", "d", graph.Record{Name: "d", OtherFinalizers: true, References: []graph.Reference{c.ref("owner")}})
	res := c.delete(foreground, Rules{}, "owner")
	expect(t, res, "stuck d other-finalizer", "stuck owner waits-for-dependent")
	if o := object(t, res, "owner"); len(o.Blockers) != 1 {
		t.Errorf("the owner is blocked by %v", o.Blockers)
	}

	c = newCluster()
	c.put("Thing", "n", graph.Record{Name: "b"})
	c.put("Thing", "n", graph.Record{Name: "a"}, "b")
	c.twin("Widget", "n", "a", graph.Record{Name: "a", References: []graph.Reference{c.ref("b")}})
	c.put("Thing", "n", graph.Record{Name: "b"}, "a", "Widget/a")
	res = c.delete(foreground, Rules{Rings: true}, "a")
	expect(t, res, "gone a", "gone b")
	if len(res.Rings) != 1 || len(res.Rings[0]) != 2 {
		t.Errorf("the rings are %v", res.Rings)
	}
}

func TestOneUIDInTwoNamespaces(t *testing.T) {
	c := newCluster()
	c.put("World", "", graph.Record{Name: "root"})
	c.put("Thing", "n", graph.Record{Name: "a"}, "root")
	c.twin("Widget", "m", "a", graph.Record{Name: "a", References: []graph.Reference{c.ref("root")}})
	expect(t, c.delete(background, Rules{}, "root"), "gone root", "gone a", "gone a")
}

// TestPlanEndsThoughOneUIDIsNamedInManyPlaces: an object that the deletion reaches names a UID in more places than are remembered of
// a UID that few references name, and a kind that nobody serves, so that it stays.
func TestPlanEndsThoughOneUIDIsNamedInManyPlaces(t *testing.T) {
	for name, rules := range map[string]Rules{"reap": {}, "Kubernetes": {Kubernetes: true}} {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			c.put("Thing", "n", graph.Record{Name: "owner"})
			odd := graph.Record{Name: "odd"}
			for i := range 200 {
				r := c.ref("Thing/absent")
				r.Name = fmt.Sprint("place", i)
				odd.References = append(odd.References, r)
			}
			odd.References = append(odd.References, graph.Reference{APIVersion: "v9", Kind: "Thing", Name: "owner", UID: "owner"})
			c.put("Thing", "n", odd)
			res := c.delete(background, rules, "owner")
			if len(res.Objects) == 0 || res.Objects[0].Fate != Gone {
				t.Errorf("the owner does not go: %+v", res.Objects)
			}
			if i := slices.IndexFunc(res.Objects, func(o Object) bool { return o.Record.Name == "odd" && o.Fate == Gone }); i >= 0 {
				t.Error("an object with an owner of an unknown kind goes")
			}
		})
	}
}

// If an owner waits for the deleted object, it goes too, and so do its other dependents.
func TestWaitingOwnersAreReached(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "waits", Deleting: true, Foreground: true, DeletedAt: now.Unix()})
	c.put("Thing", "n", graph.Record{Name: "solid"})
	c.put("Thing", "n", graph.Record{Name: "blocks"}, "waits", "Nonsense/x")
	expect(t, c.delete(background, Rules{}, "blocks"), "gone blocks", "gone waits")
}

func TestOrphaningWaitsForWhatCannotBeListed(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	c.put("Thing", "n", graph.Record{Name: "d"}, "owner")
	expect(t, c.delete(orphan, Rules{Holds: "something"}, "owner"), "stuck owner orphaning-waits", "freed d no-references")
	expect(t, c.delete(orphan, Rules{Holds: "something", OrphanTimeout: time.Minute}, "owner"), "gone owner after 1m0s", "freed d no-references")
}

// Nobody serves the dependent's resource any more, so that it keeps its reference.
func TestOrphaningWaitsForWhatIsNotServed(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	c.put("Widget", "n", graph.Record{Name: "d"}, "owner")
	c.SetCatalog(graph.NewCatalog([]*graph.Resource{resources["Thing"]}), now)
	expect(t, c.delete(orphan, Rules{}, "owner"), "stuck owner orphaning-waits", "unchanged d owner-solid")
}

// An object in another namespace is not freed with the dependents, only when the owner has gone. Kubernetes frees it with them.
func TestOrphaningLeavesOtherNamespacesAlone(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner", OtherFinalizers: true})
	c.put("Thing", "n", graph.Record{Name: "d"}, "owner")
	c.put("Widget", "m", graph.Record{Name: "far", Deleting: true, OtherFinalizers: true}, "owner")
	lost := func(kubernetes bool) int {
		p := c.delete(orphan, Rules{Kubernetes: kubernetes}, "owner")
		return len(p.Objects[slices.IndexFunc(p.Objects, func(o Object) bool { return o.Key == c.key("far") })].Loses)
	}
	if of, upstream := lost(false), lost(true); of != 0 || upstream != 1 {
		t.Errorf("it lost %d references, and in Kubernetes %d", of, upstream)
	}
	c.SetCatalog(graph.NewCatalog([]*graph.Resource{resources["Thing"]}), now) // nor does it hold the owner while nobody serves it
	expect(t, c.delete(orphan, Rules{}, "owner"), "stuck owner other-finalizer", "freed d no-references", "unchanged far being-deleted")
}

// An owner that was deleted with policy Orphan before lets its dependents stay.
func TestOrphanedBefore(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	c.put("Thing", "n", graph.Record{Name: "d"}, "owner", "Thing/before")
	rules := Rules{Orphaned: func(uid types.UID) bool { return uid == "before" }}
	expect(t, c.delete(orphan, rules, "owner"), "gone owner", "freed d no-references")
}

// What a user deletes loses references, but goes for the user's sake.
func TestReasonOfADeletionStays(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	c.put("Thing", "n", graph.Record{Name: "d", OtherFinalizers: true}, "owner")
	res := c.delete(orphan, Rules{}, "d", "owner")
	if o := object(t, res, "d"); o.Fate != Stuck || o.Reason != Requested || len(o.Loses) != 1 {
		t.Errorf("%+v", o)
	}
}

// The dependent is freed by one owner or collected with the other, depending on which is looked at first.
func TestFateThatDependsOnTiming(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "root"})
	c.put("Thing", "n", graph.Record{Name: "lets-go", Orphan: true}, "root")
	c.put("Thing", "n", graph.Record{Name: "takes-along"}, "root")
	c.put("Thing", "n", graph.Record{Name: "d"}, "lets-go", "takes-along")
	res := c.delete(background, Rules{}, "root")
	i := slices.IndexFunc(res.Objects, func(o Object) bool { return o.Record.Name == "d" })
	if !res.Objects[i].Uncertain || len(res.Notes) != 1 || res.Notes[0].What != Timing {
		t.Errorf("%+v, notes %v", res.Objects[i], res.Notes)
	}
}

// A held dependent of two targets loses the reference to the first if the collector acts before the second
// DELETE, and keeps both references otherwise.
func TestTargetsThatShareADependent(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "a"})
	c.put("Thing", "n", graph.Record{Name: "b"})
	c.put("Thing", "n", graph.Record{Name: "d", OtherFinalizers: true}, "a", "b")
	expect(t, c.delete(background, Rules{}, "a", "b"), "gone a", "gone b", "stuck d other-finalizer uncertain")
}

// The outcome depends on whether the dependent of both owners is looked at before the second owner is
// deleted because of the first.
func TestDependentThatIsReachedInTwoWays(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "root"})
	c.put("Thing", "n", graph.Record{Name: "between"}, "root")
	c.put("Thing", "n", graph.Record{Name: "d", OtherFinalizers: true}, "root", "between")
	res := c.delete(foreground, Rules{}, "root")
	i := slices.IndexFunc(res.Objects, func(o Object) bool { return o.Record.Name == "d" })
	if i < 0 || !res.Objects[i].Uncertain {
		t.Errorf("%+v", res.Objects)
	}
}

// The dependent loses the reference to an absent owner first and stays, or loses the one to its other owner first and goes.
func TestOrphanedDependentWithAnAbsentOwner(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	c.put("Thing", "n", graph.Record{Name: "d"}, "owner", "Thing/absent")
	expect(t, c.delete(orphan, Rules{}, "owner"), "gone owner", "freed d no-references uncertain")
}

// The collector may delete the second target before the user does, with the policy that its finalizer says.
func TestTargetThatItsOwnerReaches(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "a"})
	c.put("Thing", "n", graph.Record{Name: "b", Orphan: true}, "a")
	c.put("Thing", "n", graph.Record{Name: "c"}, "b")
	expect(t, c.delete(background, Rules{}, "a", "b"), "gone a", "gone b", "gone c uncertain")
}

// A reference that nobody can judge keeps the dependent as it is. It loses the reference to an absent owner only while
// another owner is still there.
func TestInvalidReferenceRaces(t *testing.T) {
	c := newCluster()
	c.put("World", "", graph.Record{Name: "a"})
	c.put("World", "", graph.Record{Name: "b"}, "a")
	c.put("World", "", graph.Record{Name: "d"}, "b", "World/absent", "Thing/x")
	expect(t, c.delete(background, Rules{}, "a"), "gone a", "gone b", "unchanged d owner-invalid uncertain")
}

func TestControllerThatStays(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "set"})
	ref := c.ref("set")
	ref.Controller = graph.True
	c.put("Thing", "n", graph.Record{Name: "child", References: []graph.Reference{ref}})
	if res := c.delete(background, Rules{}, "child"); len(res.Notes) != 1 || res.Notes[0].What != ControllerReacts {
		t.Errorf("the notes are %v, want one about the controller", res.Notes)
	}
	if res := c.delete(background, Rules{}, "set"); len(res.Notes) != 0 {
		t.Errorf("the notes are %v, want none", res.Notes)
	}
	c.put("Thing", "n", graph.Record{Name: "set", OtherFinalizers: true})
	if res := c.delete(foreground, Rules{}, "set"); len(res.Notes) != 1 || res.Notes[0].What != ForeignFinalizer {
		t.Errorf("the notes are %v, want none about a controller that is being deleted", res.Notes)
	}
}

// A ring is broken, but its members go on blocking other owners.
func TestRingBlocksOtherOwners(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "outer"})
	c.put("Thing", "n", graph.Record{Name: "b"})
	c.put("Thing", "n", graph.Record{Name: "a"}, "b")
	c.put("Thing", "n", graph.Record{Name: "b"}, "a", "outer")
	res := c.delete(foreground, Rules{Rings: true}, "outer", "a")
	if o := object(t, res, "b"); len(res.Rings) != 1 || len(o.Unblocks) != 1 || o.Unblocks[0].Name != "a" {
		t.Errorf("rings %v, b unblocks %v", res.Rings, o.Unblocks)
	}
}

// Kubernetes' own collector waits for ever for a ring that users delete, and cuts a chain whose end is also
// being deleted. It counts blocking references by UID alone, and keeps all references if one cannot be
// judged.
func TestRulesOfKubernetes(t *testing.T) {
	rules := Rules{Kubernetes: true, Rings: true, Options: decide.Options{Timeout: decide.Timeout{Base: time.Minute}}}
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "self"})
	c.put("Thing", "n", graph.Record{Name: "self"}, "self")
	expect(t, c.delete(foreground, rules, "self"), "stuck self waits-for-dependent")
	own := rules
	own.Kubernetes = false
	expect(t, c.delete(foreground, own, "self"), "gone self")

	c = newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	c.put("Thing", "m", graph.Record{Name: "stranger"}, "owner")
	c.put("Thing", "m", graph.Record{Name: "second"})
	c.put("Thing", "m", graph.Record{Name: "held", OtherFinalizers: true}, "owner")
	expect(t, c.delete(foreground, own, "owner"), "gone stranger", "gone owner", "stuck held other-finalizer")
	res := c.delete(foreground, rules, "owner")
	expect(t, res, "gone stranger", "stuck held other-finalizer", "stuck owner waits-for-dependent")
	if o := object(t, res, "owner"); len(o.Blockers) != 1 {
		t.Errorf("the owner is blocked by %v", o.Blockers)
	}

	c = newCluster()
	c.put("Thing", "m", graph.Record{Name: "owner"})
	c.put("Thing", "n", graph.Record{Name: "stranger"}, "owner", "Nonsense/x")
	expect(t, c.delete(foreground, rules, "owner", "stranger"), "gone stranger", "gone owner")

	c = newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	c.put("Thing", "n", graph.Record{Name: "other"})
	c.put("Thing", "n", graph.Record{Name: "d"}, "owner", "other", "Nonsense/x")
	expect(t, c.delete(background, own, "owner"), "gone owner", "freed d owner-solid")
	expect(t, c.delete(background, rules, "owner"), "gone owner", "unchanged d owner-unknown")
}

func BenchmarkPlan(b *testing.B) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "root"})
	for i := range 200 {
		set := fmt.Sprintf("set%d", i)
		c.put("Thing", "n", graph.Record{Name: set}, "root")
		for j := range 100 {
			c.put("Pod", "n", graph.Record{Name: fmt.Sprintf("%s-%d", set, j)}, set)
		}
	}
	for _, p := range []metav1.DeletionPropagation{background, foreground} {
		b.Run(string(p), func(b *testing.B) {
			for b.Loop() {
				if n := len(c.delete(p, Rules{Rings: true}, "root").Objects); n != 20_201 {
					b.Fatalf("%d objects", n)
				}
			}
		})
	}
}
