package decide

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

var (
	now        = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	namespaced = &graph.Resource{Name: "things", Kind: "Thing", Versions: []string{"v1"}, Namespaced: true, Monitored: true}
	global     = &graph.Resource{Name: "globals", Kind: "Global", Versions: []string{"v1"}, Monitored: true}
	somebody   = &graph.Record{Namespace: "n", Name: "o", UID: "o"}
	gone       = graph.Fact{State: graph.Gone}
	absent     = graph.Fact{State: graph.Absent}
)

func present(ago time.Duration) graph.Fact {
	return graph.Fact{State: graph.Present, Seen: now.Add(-ago)}
}

// Owners as the graph would describe them; the reference's UID tells them apart.
func owner(uid string, change func(*graph.OwnerView)) graph.OwnerView {
	o := graph.OwnerView{
		Reference:  graph.Reference{APIVersion: "v1", Kind: "Thing", Name: uid, UID: types.UID(uid)},
		Resource:   namespaced,
		KindServed: true,
		At:         graph.Coordinates{Kind: "Thing", Namespace: "n", Name: uid},
	}
	if change != nil {
		change(&o)
	}
	return o
}

func TestJudge(t *testing.T) {
	type ow = graph.OwnerView
	for _, c := range []struct {
		name      string
		namespace string
		owner     ow
		want      State
	}{
		{"observed", "n", ow{Resource: namespaced, KindServed: true, Observed: somebody}, Solid},
		{"observed, being deleted", "n", ow{Resource: namespaced, KindServed: true, Observed: &graph.Record{Deleting: true}}, Solid},
		{"observed, cluster-scoped", "n", ow{Resource: global, KindServed: true, Observed: somebody}, Solid},
		{"observed, both cluster-scoped", "", ow{Resource: global, KindServed: true, Observed: somebody}, Solid},
		{"nothing known", "n", ow{Resource: namespaced, KindServed: true}, Unverified},
		{"nothing known, cluster-scoped", "", ow{Resource: global, KindServed: true}, Unverified},
		{"gone", "n", ow{Resource: namespaced, KindServed: true, Fact: gone}, Dangling},
		{"absent", "n", ow{Resource: namespaced, KindServed: true, Fact: absent}, Dangling},
		{"absent, cluster-scoped", "", ow{Resource: global, KindServed: true, Fact: absent}, Dangling},
		{"seen just now", "n", ow{Resource: namespaced, KindServed: true, Fact: present(0)}, Solid},
		{"seen a moment short of too long ago", "n", ow{Resource: namespaced, KindServed: true, Fact: present(RecheckAfter - 1)}, Solid},
		{"seen too long ago", "n", ow{Resource: namespaced, KindServed: true, Fact: present(RecheckAfter)}, Unverified},
		{"seen later than now: the clock was set back", "n", ow{Resource: namespaced, KindServed: true, Fact: present(-time.Hour)}, Solid},

		{"kind unknown", "n", ow{}, Unknown},
		{"kind unknown, gone while it was served", "n", ow{Fact: gone}, Dangling},
		{"kind unknown, gone, cluster-scoped dependent", "", ow{Fact: gone}, Dangling},
		// A live read of a kind that nobody serves any more says less than an event does.
		{"kind unknown, absent while it was served", "n", ow{Fact: absent}, Unknown},
		{"kind unknown, seen", "n", ow{Fact: present(0)}, Unknown},
		{"version unknown", "n", ow{KindServed: true}, Unknown},
		{"version unknown, gone", "n", ow{KindServed: true, Fact: gone}, Unknown},
		{"version unknown, absent", "n", ow{KindServed: true, Fact: absent}, Unknown},
		{"version unknown, seen", "n", ow{KindServed: true, Fact: present(0)}, Unknown},

		{"namespaced owner of a cluster-scoped object", "", ow{Resource: namespaced, KindServed: true}, Invalid},
		{"the same, gone", "", ow{Resource: namespaced, KindServed: true, Fact: gone}, Invalid},
		{"the same, absent", "", ow{Resource: namespaced, KindServed: true, Fact: absent}, Invalid},
		{"the same, seen", "", ow{Resource: namespaced, KindServed: true, Fact: present(0)}, Invalid},
		{"the same, kind unknown", "", ow{}, Unknown},
	} {
		if got := Judge(&c.owner, c.namespace, now); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestDecide(t *testing.T) {
	solid := owner("solid", func(o *graph.OwnerView) { o.Observed = somebody })
	dangling := owner("dangling", func(o *graph.OwnerView) { o.Fact = gone })
	dangling2 := owner("dangling2", func(o *graph.OwnerView) { o.Fact = absent })
	unverified := owner("unverified", nil)
	unverified2 := owner("unverified2", func(o *graph.OwnerView) { o.Fact = present(2 * RecheckAfter) })
	seen := owner("seen", func(o *graph.OwnerView) { o.Fact = present(time.Minute) })
	seenEarlier := owner("seen-earlier", func(o *graph.OwnerView) { o.Fact = present(2 * time.Minute) })
	unknown := owner("unknown", func(o *graph.OwnerView) { o.Resource, o.KindServed = nil, false })
	version := owner("version", func(o *graph.OwnerView) { o.Resource, o.Fact = nil, gone })
	left := owner("left", func(o *graph.OwnerView) { o.Resource, o.KindServed, o.Fact = nil, false, gone })

	type owners = []graph.OwnerView
	verify := func(o ...graph.OwnerView) Decision { return Decision{Action: Verify, Reason: OwnerUnsure, Verify: o} }
	drop := func(o ...graph.OwnerView) Decision {
		d := Decision{Action: Drop, Reason: SomeDangling}
		for i := range o {
			d.Drop = append(d.Drop, o[i].Reference)
		}
		return d
	}
	again := func(d Decision, o graph.OwnerView) Decision { d.Again = o.Fact.Seen.Add(RecheckAfter); return d }
	remove := Decision{Action: Delete, Reason: OwnersDangling, Policy: metav1.DeletePropagationBackground}
	keep := func(r Reason) Decision { return Decision{Reason: r} }

	for _, c := range []struct {
		name   string
		owners owners
		want   Decision
	}{
		{"no references", nil, keep(NoReferences)},
		{"one solid", owners{solid}, keep(OwnerSolid)},
		{"one dangling", owners{dangling}, remove},
		{"one absent", owners{dangling2}, remove},
		{"all dangling", owners{dangling, dangling2, left}, remove},
		{"gone with its kind", owners{left}, remove},
		{"the same reference twice", owners{dangling, dangling}, remove},
		{"one unverified", owners{unverified}, verify(unverified)},
		{"all that is unverified, in order", owners{unverified2, dangling, unverified, solid}, verify(unverified2, unverified)},
		{"verifying comes before the veto", owners{unknown, unverified}, verify(unverified)},
		{"verifying sets no time", owners{seen, unverified}, verify(unverified)},
		{"solid and dangling", owners{solid, dangling}, drop(dangling)},
		{"dangling first, and twice", owners{dangling, solid, dangling2, dangling}, drop(dangling, dangling2, dangling)},
		{"a veto does not stop dropping beside a solid one", owners{unknown, dangling, version, solid}, drop(dangling)},
		{"solid beside unknown", owners{solid, unknown}, keep(OwnerSolid)},
		{"unknown", owners{unknown}, keep(OwnerUnknown)},
		{"unknown beside dangling", owners{dangling, unknown}, keep(OwnerUnknown)},
		{"version unknown beside dangling", owners{dangling, version}, keep(OwnerUnknown)},
		{"seen live", owners{seen}, again(keep(OwnerSolid), seen)},
		{"the earliest look decides", owners{seen, seenEarlier, solid}, again(keep(OwnerSolid), seenEarlier)},
		{"seen live beside dangling", owners{seen, dangling}, again(drop(dangling), seen)},
		{"a version unknown beside seen", owners{version, seen}, again(keep(OwnerSolid), seen)},
	} {
		v := graph.View{Record: &graph.Record{Namespace: "n", Name: "d", UID: "d"}, Owners: c.owners}
		if got := Decide(&v, now); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, c.want)
		}
		// Whatever its owners, an object that somebody has deleted is left to itself.
		v.Record = &graph.Record{Namespace: "n", Name: "d", UID: "d", Deleting: true}
		want := keep(BeingDeleted)
		if len(c.owners) == 0 {
			want = keep(NoReferences)
		}
		if got := Decide(&v, now); !reflect.DeepEqual(got, want) {
			t.Errorf("%s, being deleted:\n got %+v\nwant %+v", c.name, got, want)
		}
	}
}

func TestInvalidReferenceVetoesDeletion(t *testing.T) {
	invalid := owner("invalid", func(o *graph.OwnerView) { o.At.Namespace, o.Fact = "", absent })
	onGlobal := func(name string, change func(*graph.OwnerView)) graph.OwnerView {
		return owner(name, func(o *graph.OwnerView) { o.Resource, o.At.Namespace = global, ""; change(o) })
	}
	dangling := onGlobal("dangling", func(o *graph.OwnerView) { o.Fact = gone })
	solid := onGlobal("solid", func(o *graph.OwnerView) { o.Observed = somebody })
	unknown := onGlobal("unknown", func(o *graph.OwnerView) { o.Resource, o.KindServed = nil, false })
	for _, c := range []struct {
		name   string
		owners []graph.OwnerView
		action Action
		reason Reason
	}{
		{"alone", []graph.OwnerView{invalid}, Nothing, OwnerInvalid},
		{"beside dangling", []graph.OwnerView{dangling, invalid}, Nothing, OwnerInvalid},
		{"beside unknown", []graph.OwnerView{unknown, invalid}, Nothing, OwnerInvalid},
		{"beside solid", []graph.OwnerView{invalid, solid}, Nothing, OwnerSolid},
		{"beside solid and dangling", []graph.OwnerView{invalid, dangling, solid}, Drop, SomeDangling},
	} {
		v := graph.View{Record: &graph.Record{Name: "d", UID: "d"}, Owners: c.owners}
		d := Decide(&v, now)
		if d.Action != c.action || d.Reason != c.reason {
			t.Errorf("%s: %s because %s", c.name, d.Action, d.Reason)
		}
		if d.Action == Drop && !reflect.DeepEqual(d.Drop, []graph.Reference{dangling.Reference}) {
			t.Errorf("%s: drops %v", c.name, d.Drop)
		}
	}
}

func TestDeleteHonoursAFinalizerThatIsThere(t *testing.T) {
	dangling := owner("dangling", func(o *graph.OwnerView) { o.Fact = gone })
	for _, c := range []struct {
		foreground, orphan bool
		want               metav1.DeletionPropagation
	}{
		{false, false, metav1.DeletePropagationBackground},
		{true, false, metav1.DeletePropagationForeground},
		{false, true, metav1.DeletePropagationOrphan},
		// Orphaning loses nothing that cannot be deleted afterwards.
		{true, true, metav1.DeletePropagationOrphan},
	} {
		v := graph.View{Record: &graph.Record{Namespace: "n", Foreground: c.foreground, Orphan: c.orphan}, Owners: []graph.OwnerView{dangling}}
		if d := Decide(&v, now); d.Action != Delete || d.Policy != c.want {
			t.Errorf("foreground %v, orphan %v: %s %s", c.foreground, c.orphan, d.Action, d.Policy)
		}
	}
}

func TestWordsAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	add := func(word string) {
		if word == "" || seen[word] {
			t.Errorf("%q is empty or taken", word)
		}
		seen[word] = true
	}
	for s := Unverified; s <= Invalid; s++ {
		add(s.String())
	}
	for a := Nothing; a <= Drop; a++ {
		add(a.String())
	}
	for _, r := range Reasons() {
		add(string(r))
	}
}
