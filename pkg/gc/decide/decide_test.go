package decide

import (
	"fmt"
	"math"
	"reflect"
	"slices"
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
	unwatched  = &graph.Resource{Name: "secrets", Kind: "Secret", Versions: []string{"v1"}, Namespaced: true}
	waiter     = &graph.Record{Namespace: "n", Name: "o", UID: "o", Deleting: true, Foreground: true}
	somebody   = &graph.Record{Namespace: "n", Name: "o", UID: "o"}
	gone       = graph.Fact{State: graph.Gone}
	absent     = graph.Fact{State: graph.Absent}
)

func present(ago time.Duration) graph.Fact {
	return graph.Fact{State: graph.Present, Seen: now.Add(-ago)}
}

// waits is a live read that found the owner in foreground deletion.
func waits(ago time.Duration) graph.Fact {
	return graph.Fact{State: graph.Present, Seen: now.Add(-ago), Waiting: true}
}

// owner returns an owner as the graph would describe it; the UIDs of the references tell owners
// apart.
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
		{"seen a moment short of too long ago", "n", ow{Resource: unwatched, KindServed: true, Fact: present(RecheckAfter - 1)}, Solid},
		{"seen too long ago", "n", ow{Resource: unwatched, KindServed: true, Fact: present(RecheckAfter)}, Unverified},
		{"monitored, seen a moment short of too long ago", "n", ow{Resource: namespaced, KindServed: true, Fact: present(RecheckMonitored - 1)}, Solid},
		{"monitored, seen too long ago", "n", ow{Resource: namespaced, KindServed: true, Fact: present(RecheckMonitored)}, Unverified},
		{"waits, as a monitor shows it", "n", ow{Resource: namespaced, KindServed: true, Observed: waiter}, Unverified},
		{"waits, read just now", "n", ow{Resource: namespaced, KindServed: true, Observed: waiter, Fact: waits(0)}, Waiting},
		{"waits, read a moment short of too long ago", "n", ow{Resource: namespaced, KindServed: true, Observed: waiterAt("7"), Fact: readAt("7", waits(WaitingShown-1))}, Waiting},
		{"waits, read too long ago", "n", ow{Resource: namespaced, KindServed: true, Observed: waiterAt("7"), Fact: readAt("7", waits(WaitingShown))}, Unverified},
		{"waits, shown at a newer version", "n", ow{Resource: namespaced, KindServed: true, Observed: waiterAt("10"), Fact: readAt("9", waits(WaitingShown-1))}, Waiting},
		{"waits, shown at an older version", "n", ow{Resource: namespaced, KindServed: true, Observed: waiterAt("9"), Fact: readAt("10", waits(WaitingFor))}, Unverified},
		{"waits, shown at an older version, read just now", "n", ow{Resource: namespaced, KindServed: true, Observed: waiterAt("9"), Fact: readAt("10", waits(WaitingFor-1))}, Waiting},
		{"waits, shown at a version that says nothing", "n", ow{Resource: namespaced, KindServed: true, Observed: waiterAt("b"), Fact: readAt("a", waits(WaitingFor))}, Unverified},
		{"called off since it was read", "n", ow{Resource: namespaced, KindServed: true, Observed: &graph.Record{ResourceVersion: "8"}, Fact: readAt("7", waits(0))}, Solid},
		{"waits since it was shown", "n", ow{Resource: namespaced, KindServed: true, Observed: &graph.Record{ResourceVersion: "7"}, Fact: readAt("8", waits(0))}, Waiting},
		{"waits, and no monitor shows it", "n", ow{Resource: unwatched, KindServed: true, Fact: waits(0)}, Waiting},
		{"the same, too long ago", "n", ow{Resource: unwatched, KindServed: true, Fact: waits(WaitingFor)}, Unverified},
		{"shown as waiting, read as not", "n", ow{Resource: namespaced, KindServed: true, Observed: waiter, Fact: present(0)}, Solid},
		{"the same, too long ago", "n", ow{Resource: namespaced, KindServed: true, Observed: waiter, Fact: present(WaitingFor)}, Unverified},
		{"not shown as waiting yet, read as such", "n", ow{Resource: namespaced, KindServed: true, Observed: somebody, Fact: waits(0)}, Waiting},
		{"the same, too long ago", "n", ow{Resource: namespaced, KindServed: true, Observed: somebody, Fact: waits(WaitingFor)}, Solid},
		{"waits for something to be orphaned", "n", ow{Resource: namespaced, KindServed: true, Observed: &graph.Record{Deleting: true, Orphan: true}}, Solid},
		{"orphaned", "n", ow{Resource: namespaced, KindServed: true, Fact: gone, Orphaned: true}, Orphaned},
		{"orphaned, nothing known", "n", ow{Resource: namespaced, KindServed: true, Orphaned: true}, Orphaned},
		{"orphaned, kind unknown", "n", ow{Orphaned: true}, Orphaned},
		{"seen later than now: the clock was set back", "n", ow{Resource: namespaced, KindServed: true, Fact: present(-time.Hour)}, Solid},

		{"kind unknown", "n", ow{}, Unknown},
		{"kind unknown, gone while it was served", "n", ow{Fact: gone}, Dangling},
		{"kind unknown, gone, cluster-scoped dependent", "", ow{Fact: gone}, Dangling},
		// Once a kind is no longer served, an earlier live read proves less than an event does.
		{"kind unknown, absent while it was served", "n", ow{Fact: absent}, Unknown},
		{"kind unknown, seen", "n", ow{Fact: present(0)}, Unknown},
		{"version unknown", "n", ow{KindServed: true}, Unknown},
		{"version unknown, gone", "n", ow{KindServed: true, Fact: gone}, Unknown},
		{"version unknown, absent", "n", ow{KindServed: true, Fact: absent}, Unknown},
		{"version unknown, seen", "n", ow{KindServed: true, Fact: present(0)}, Unknown},

		{"namespaced owner of a cluster-scoped object", "", ow{Resource: namespaced, KindServed: true}, Invalid},
		{"the same, gone", "", ow{Resource: namespaced, KindServed: true, Fact: gone}, Invalid},
		{"the same, absent", "", ow{Resource: namespaced, KindServed: true, Fact: absent}, Invalid},
		{"the same, waiting", "", ow{Resource: namespaced, KindServed: true, Fact: waits(0)}, Invalid},
		{"the same, seen", "", ow{Resource: namespaced, KindServed: true, Fact: present(0)}, Invalid},
		{"the same, kind unknown", "", ow{}, Unknown},
	} {
		if got := Judge(&c.owner, c.namespace, now); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// waiterAt is waiter with a version, readAt a fact about such an owner.
func waiterAt(version string) *graph.Record {
	w := *waiter
	w.ResourceVersion = version
	return &w
}

func readAt(version string, f graph.Fact) graph.Fact { f.Version = version; return f }

func TestDecide(t *testing.T) {
	solid := owner("solid", func(o *graph.OwnerView) { o.Observed = somebody })
	dangling := owner("dangling", func(o *graph.OwnerView) { o.Fact = gone })
	dangling2 := owner("dangling2", func(o *graph.OwnerView) { o.Fact = absent })
	unverified := owner("unverified", nil)
	unverified2 := owner("unverified2", func(o *graph.OwnerView) { o.Fact = present(2 * RecheckAfter) })
	seen := owner("seen", func(o *graph.OwnerView) { o.Resource, o.Fact = unwatched, present(time.Minute) })
	seenEarlier := owner("seen-earlier", func(o *graph.OwnerView) { o.Resource, o.Fact = unwatched, present(2*time.Minute) })
	waiting := owner("waiting", func(o *graph.OwnerView) { o.Observed, o.Fact = waiter, waits(0) })
	askWaiting := owner("ask-waiting", func(o *graph.OwnerView) { o.Observed = waiter })
	orphaned := owner("orphaned", func(o *graph.OwnerView) { o.Fact, o.Orphaned = gone, true })
	unknown := owner("unknown", func(o *graph.OwnerView) { o.Resource, o.KindServed = nil, false })
	version := owner("version", func(o *graph.OwnerView) { o.Resource, o.Fact = nil, gone })
	left := owner("left", func(o *graph.OwnerView) { o.Resource, o.KindServed, o.Fact = nil, false, gone })

	type owners = []graph.OwnerView
	verify := func(o ...graph.OwnerView) Decision {
		return Decision{Action: Verify, Reason: OwnerUnverified, Verify: o}
	}
	drop := func(o ...graph.OwnerView) Decision {
		d := Decision{Action: Drop, Reason: SomeDangling}
		for i := range o {
			d.Drop = append(d.Drop, o[i].Reference)
		}
		return d
	}
	free := func(o ...graph.OwnerView) Decision { d := drop(o...); d.Reason = OwnerOrphaned; return d }
	again := func(d Decision, o graph.OwnerView) Decision { d.Again = o.Fact.Seen.Add(RecheckAfter); return d }
	remove := Decision{Action: Delete, Reason: OwnersDangling, Policy: metav1.DeletePropagationBackground}
	removeWaiting := Decision{Action: Delete, Reason: OwnerWaiting, Policy: metav1.DeletePropagationBackground}
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
		{"waiting", owners{waiting}, removeWaiting},
		{"waiting beside dangling", owners{dangling, waiting}, removeWaiting},
		{"waiting, to be asked", owners{askWaiting}, verify(askWaiting)},
		{"waiting, to be asked, beside solid", owners{solid, askWaiting}, verify(askWaiting)},
		{"waiting beside solid", owners{solid, waiting}, drop(waiting)},
		{"waiting and dangling beside solid", owners{waiting, solid, dangling}, drop(waiting, dangling)},
		{"waiting beside unknown", owners{waiting, unknown}, keep(OwnerUnknown)},
		{"orphaned", owners{orphaned}, free(orphaned)},
		{"orphaned beside dangling", owners{dangling, orphaned}, free(orphaned)},
		{"orphaned beside waiting", owners{orphaned, waiting}, free(orphaned)},
		{"orphaned beside solid and dangling", owners{dangling, orphaned, solid}, free(orphaned)},
		{"orphaned beside unknown", owners{orphaned, unknown}, free(orphaned)},
		{"a version unknown beside seen", owners{version, seen}, again(keep(OwnerSolid), seen)},
	} {
		v := graph.View{Record: &graph.Record{Namespace: "n", Name: "d", UID: "d"}, Owners: c.owners}
		if got := Decide(&v, Options{}, now); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, c.want)
		}
		// The owners of an object that is being deleted do not matter.
		for _, r := range []graph.Record{
			{Deleting: true},
			{Deleting: true, Foreground: true},
			{Deleting: true, Orphan: true},
		} {
			v.Record = &r
			want := keep(BeingDeleted)
			switch {
			case r.Orphan:
				want = Decision{Action: Orphan, Reason: Orphaning}
			case r.Foreground:
				want = Decision{Reason: Settling, Again: now.Add(syncAgain)}
			}
			if got := Decide(&v, Options{}, now); !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %+v:\n got %+v\nwant %+v", c.name, r, got, want)
			}
		}
		// An object that its monitor no longer shows is read before anything else, in any state.
		for _, r := range []graph.Record{{}, {Deleting: true}, {Deleting: true, Foreground: true}, {Deleting: true, Orphan: true}} {
			v.Record, v.Missing = &r, true
			if got, want := Decide(&v, Options{}, now), (Decision{Action: Confirm, Reason: Missing}); !reflect.DeepEqual(got, want) {
				t.Errorf("%s, unsure:\n got %+v\nwant %+v", c.name, got, want)
			}
		}
	}
}

// An object without owner references stays, whether or not other objects name it as their owner.
func TestObjectWithoutOwnersStays(t *testing.T) {
	for _, dependents := range []bool{false, true} {
		v := graph.View{Record: &graph.Record{Namespace: "n", Name: "d", UID: "d"}, HasDependents: dependents}
		if got, want := Decide(&v, Options{}, now), (Decision{Reason: NoReferences}); !reflect.DeepEqual(got, want) {
			t.Errorf("dependents %v: got %+v", dependents, got)
		}
	}
}

// TestReadsOfOneDecisionAreBounded: an object that names thousands of owners takes many turns.
func TestReadsOfOneDecisionAreBounded(t *testing.T) {
	var owners []graph.OwnerView
	for i := range 3 * VerifyAtOnce {
		owners = append(owners, owner(fmt.Sprint(i), nil))
	}
	decide := func(more ...graph.OwnerView) Decision {
		return Decide(&graph.View{Record: &graph.Record{Namespace: "n"}, Owners: append(slices.Clone(owners), more...)}, Options{}, now)
	}
	want := Decision{Action: Verify, Reason: OwnerUnverified, Verify: owners[:VerifyAtOnce], Unverified: 2 * VerifyAtOnce}
	if got := decide(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	solid := owner("solid", func(o *graph.OwnerView) { o.Observed = somebody })
	dangling := owner("dangling", func(o *graph.OwnerView) { o.Fact = gone })
	if got := decide(solid); !reflect.DeepEqual(got, want) {
		t.Errorf("beside a solid owner: got %+v", got)
	}
	// One solid owner is enough to keep the object and to drop the references that are known to
	// dangle.
	if got := decide(dangling, solid); got.Action != Drop || !slices.Equal(got.Drop, []graph.Reference{dangling.Reference}) {
		t.Errorf("beside a solid owner and a dangling one: got %+v", got)
	}
	if got := decide(dangling); got.Action != Verify {
		t.Errorf("beside a dangling owner: got %+v", got)
	}
}

func TestRelease(t *testing.T) {
	wait := func(r Reason, until time.Time) Decision { return Decision{Reason: r, Again: until} }
	since := func(d time.Duration) graph.Wait { return graph.Wait{Since: now.Add(-d), Progress: now.Add(-d)} }
	long := now.Add(-time.Hour) // since when everything has been listed
	minute := Options{Timeout: Timeout{Base: time.Minute, PerDependent: time.Second}}
	release := Decision{Action: Release, Reason: NothingBlocks}
	late := Decision{Action: Release, Reason: TimedOut}
	for _, c := range []struct {
		name    string
		view    graph.View
		options Options
		want    Decision
	}{
		{"blocked", graph.View{Blocking: 1, SyncedSince: long, Wait: since(time.Hour)}, Options{}, wait(WaitsForDependent, time.Time{})},
		{"blocked, not synced", graph.View{Blocking: 1}, Options{}, wait(WaitsForDependent, time.Time{})},
		{"not synced", graph.View{Wait: since(time.Hour)}, Options{}, wait(Settling, now.Add(syncAgain))},
		{"not synced until a deadline", graph.View{Wait: since(time.Minute - 1)}, minute, wait(Settling, now.Add(1))},
		{"not synced for too long", graph.View{Wait: since(time.Hour), Survey: &graph.Survey{}}, minute, late},
		{"nobody knows since when", graph.View{SyncedSince: long}, Options{}, wait(Settling, now.Add(syncAgain))},
		{"just begun", graph.View{SyncedSince: long, Wait: since(0)}, Options{}, wait(Settling, now.Add(SettleFor))},
		{"just synced", graph.View{SyncedSince: now, Wait: since(time.Hour)}, Options{}, wait(Settling, now.Add(SettleFor))},
		{"nearly settled", graph.View{SyncedSince: long, Wait: since(SettleFor - 1)}, Options{}, wait(Settling, now.Add(1))},
		{"settled", graph.View{SyncedSince: long, Wait: since(SettleFor)}, Options{}, release},
		{"settled, and late", graph.View{SyncedSince: long, Wait: since(time.Hour)}, minute, release},
		{"its controller is behind", graph.View{SyncedSince: long, Behind: true, Wait: since(time.Second)}, Options{}, wait(ControllerBehind, now.Add(ObserveFor-time.Second))},
		{"its controller is behind for too long", graph.View{SyncedSince: long, Behind: true, Wait: since(ObserveFor)}, Options{}, release},
		{"its controller is behind, and all has just been listed", graph.View{SyncedSince: now.Add(-time.Second), Behind: true, Wait: since(ObserveFor)}, Options{}, release},
		{"blocked until a deadline", graph.View{Blocking: 1, SyncedSince: long, Wait: since(0)}, minute, wait(WaitsForDependent, now.Add(time.Minute))},
		{"what is below has to be counted", graph.View{Blocking: 1, SyncedSince: long, Wait: since(time.Minute)}, minute, Decision{Action: Survey, Reason: WaitsForDependent}},
		{"nothing is below", graph.View{Blocking: 1, SyncedSince: long, Wait: since(time.Minute), Survey: &graph.Survey{}}, minute, late},
		{"two are below", graph.View{Blocking: 1, SyncedSince: long, Wait: since(time.Minute), Survey: &graph.Survey{Descendants: 2}}, minute, wait(WaitsForDependent, now.Add(2*time.Second))},
		{"two were below for too long", graph.View{Blocking: 1, SyncedSince: long, Wait: since(time.Minute + 2*time.Second), Survey: &graph.Survey{Descendants: 2}}, minute, late},
		{"one far below went just now", graph.View{Blocking: 1, SyncedSince: long, Wait: since(time.Hour), Survey: &graph.Survey{Descendants: 1, Progress: now}}, minute, wait(WaitsForDependent, now.Add(61*time.Second))},
		{"so many are below that time runs out", graph.View{Blocking: 1, SyncedSince: long, Wait: since(time.Hour), Survey: &graph.Survey{Descendants: 1 << 60}}, minute, wait(WaitsForDependent, now.Add(-59*time.Minute).Add(math.MaxInt64/3))},
		{"with dependents that do not block", graph.View{SyncedSince: long, HasDependents: true, Wait: since(time.Hour)}, Options{}, release},
		{"without an owner of its own", graph.View{SyncedSince: long, Wait: since(time.Hour), Owners: []graph.OwnerView{owner("o", nil)}}, Options{}, release},
	} {
		c.view.Record = waiter
		if got := Decide(&c.view, c.options, now); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, c.want)
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
		d := Decide(&v, Options{}, now)
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
		// Orphaning is the safe choice: the dependents can still be deleted afterwards.
		{true, true, metav1.DeletePropagationOrphan},
	} {
		v := graph.View{Record: &graph.Record{Namespace: "n", Foreground: c.foreground, Orphan: c.orphan}, Owners: []graph.OwnerView{dangling}}
		if d := Decide(&v, Options{}, now); d.Action != Delete || d.Policy != c.want {
			t.Errorf("foreground %v, orphan %v: %s %s", c.foreground, c.orphan, d.Action, d.Policy)
		}
		v.HasDependents = true
		if d := Decide(&v, Options{}, now); d.Action != Delete || d.Policy != c.want {
			t.Errorf("foreground %v, orphan %v, with dependents: %s %s", c.foreground, c.orphan, d.Action, d.Policy)
		}
		// For a waiting owner, an object that has dependents is deleted in the foreground. The
		// policy of the others does not change.
		v.Owners = []graph.OwnerView{owner("waiting", func(o *graph.OwnerView) { o.Observed, o.Fact = waiter, waits(0) }), dangling}
		if d := Decide(&v, Options{}, now); d.Action != Delete || d.Policy != metav1.DeletePropagationForeground {
			t.Errorf("foreground %v, orphan %v, with dependents, of a waiting owner: %s %s", c.foreground, c.orphan, d.Action, d.Policy)
		}
		v.HasDependents = false
		if d := Decide(&v, Options{}, now); d.Action != Delete || d.Policy != c.want {
			t.Errorf("foreground %v, orphan %v, of a waiting owner: %s %s", c.foreground, c.orphan, d.Action, d.Policy)
		}
	}
}

func TestWordsAreDistinct(t *testing.T) {
	distinct := func(what string, words ...string) {
		for i, w := range words {
			if w == "" || slices.Contains(words[:i], w) {
				t.Errorf("%s: %q is empty or taken", what, w)
			}
		}
	}
	var states, actions, reasons []string
	for s := Unverified; s <= Invalid; s++ {
		states = append(states, s.String())
	}
	for a := Nothing; a <= Survey; a++ {
		actions = append(actions, a.String())
	}
	for _, r := range Reasons() {
		reasons = append(reasons, string(r))
	}
	distinct("states", states...)
	distinct("actions", actions...)
	distinct("reasons", reasons...)
}
