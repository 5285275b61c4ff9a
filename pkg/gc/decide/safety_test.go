package decide

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/size"
)

// The safety property, stated again without the code under test: what must be true of every reference before an
// object may be deleted.

// mayDangle reports whether a reference may count as dangling.
func mayDangle(o *graph.OwnerView, namespace string) bool {
	proved := o.Fact.State == graph.Gone || o.Fact.State == graph.Absent
	switch {
	case o.Observed != nil || !proved:
		return false
	case o.Resource == nil:
		// The proof by an event outlives the kind. If only the version is not served, nothing is known.
		return !o.KindServed && o.Fact.State == graph.Gone
	}
	return namespace != "" || !o.Resource.Namespaced
}

// mayWait reports whether a reference may count as naming an owner that waits for its dependents. Only a live read
// can prove that, and not for long.
func mayWait(o *graph.OwnerView, namespace string, now time.Time) bool {
	return o.Resource != nil && (namespace != "" || !o.Resource.Namespaced) &&
		o.Fact.State == graph.Present && o.Fact.Waiting && now.Sub(o.Fact.Seen) < mayWaitFor(o) && !mayBeCalledOff(o)
}

// mayWaitFor returns how long such a read counts: thirty seconds if the monitor shows the same at no older version, a
// second otherwise. Here versions are letters and single digits.
func mayWaitFor(o *graph.OwnerView) time.Duration {
	shown := o.Observed != nil && o.Observed.Deleting && o.Observed.Foreground
	if shown && (o.Observed.ResourceVersion == o.Fact.Version || digits(o) && o.Observed.ResourceVersion > o.Fact.Version) {
		return 30 * time.Second
	}
	return time.Second
}

func mayBeCalledOff(o *graph.OwnerView) bool {
	return o.Observed != nil && !(o.Observed.Deleting && o.Observed.Foreground) && digits(o) && o.Observed.ResourceVersion > o.Fact.Version
}

func digits(o *graph.OwnerView) bool {
	digit := func(s string) bool { return len(s) == 1 && s[0] >= '1' && s[0] <= '9' }
	return digit(o.Observed.ResourceVersion) && digit(o.Fact.Version)
}

// mayBeSolid reports whether a reference may count as solid.
func mayBeSolid(o *graph.OwnerView, namespace string, now time.Time) bool {
	if o.Resource == nil || namespace == "" && o.Resource.Namespaced {
		return false
	}
	shown := o.Observed != nil && !(o.Observed.Deleting && o.Observed.Foreground)
	limit := time.Second // the monitor soon shows something newer
	if o.Observed == nil && o.Resource.Monitored {
		limit = time.Minute
	} else if o.Observed == nil {
		limit = 15 * time.Minute
	}
	read := o.Fact.State == graph.Present && !o.Fact.Waiting && now.Sub(o.Fact.Seen) < limit
	return (shown || read) && !mayWait(o, namespace, now)
}

// checkDecision returns what is wrong with a decision, or nil.
func checkDecision(v *graph.View, o Options, now time.Time, d Decision) error {
	dangling, orphaned, solid, waiting := map[graph.Reference]bool{}, map[graph.Reference]bool{}, 0, 0
	for i := range v.Owners {
		o := &v.Owners[i]
		switch {
		case o.Orphaned:
			orphaned[o.Reference] = true
		case mayWait(o, v.Record.Namespace, now):
			waiting++
			dangling[o.Reference] = true
		case mayDangle(o, v.Record.Namespace):
			dangling[o.Reference] = true
		case mayBeSolid(o, v.Record.Namespace, now):
			solid++
		}
	}
	r := v.Record
	if (d.Action == Confirm) != v.Missing {
		return fmt.Errorf("acts on what may not be there, or reads what is")
	}
	if v.Missing {
		return nil
	}
	if (d.Action == Delete || d.Action == Drop || d.Action == Verify) && (r.Deleting || len(v.Owners) == 0) {
		return fmt.Errorf("acts on an object that is being deleted or has no owners")
	}
	if (d.Action == Orphan) != (r.Deleting && r.Orphan) {
		return fmt.Errorf("orphans what nobody asked to orphan, or does not orphan what somebody did")
	}
	if err := checkRelease(v, o, now, d); err != nil {
		return err
	}
	switch d.Action {
	case Delete:
		for i := range v.Owners {
			if !dangling[v.Owners[i].Reference] {
				return fmt.Errorf("deletes though owner %d is neither proved absent nor read as waiting", i)
			}
		}
		if waiting > 0 && v.HasDependents && d.Policy != metav1.DeletePropagationForeground {
			return fmt.Errorf("lets a waiting owner go before the dependents of its dependents")
		}
		if (waiting > 0) != (d.Reason == OwnerWaiting) {
			return fmt.Errorf("gives the wrong reason")
		}
		if d.Policy == "" || !d.Again.IsZero() {
			return fmt.Errorf("deletes without a policy, or means to come back")
		}
	case Drop:
		if solid == 0 && len(orphaned) == 0 {
			return fmt.Errorf("drops the object's last owners")
		}
		if len(d.Drop) == 0 {
			return fmt.Errorf("decides to drop references and names none")
		}
		if len(orphaned) > 0 {
			dangling = orphaned // the other references are decided about afterwards
		}
		for _, r := range d.Drop {
			if !dangling[r] {
				return fmt.Errorf("drops %+v, which is not proved to dangle", r)
			}
		}
		for r := range dangling {
			if !slices.Contains(d.Drop, r) {
				return fmt.Errorf("leaves the dangling reference %+v", r)
			}
		}
	case Verify:
		if len(d.Verify) == 0 {
			return fmt.Errorf("decides to verify owners and names none")
		}
		for i := range d.Verify {
			o := &d.Verify[i]
			if o.Resource == nil || o.Resource.Namespaced && o.At.Namespace == "" {
				return fmt.Errorf("wants to read %+v, which has no place", o)
			}
			if o.Observed != nil && !o.Observed.WaitingForDependents() || o.Observed == nil && o.Fact.Proved() || o.Orphaned {
				return fmt.Errorf("wants to read %+v, which is known", o)
			}
		}
	case Nothing:
		// Garbage must not stay either, and no decision may wait for an answer that nobody asks for.
		if !v.Record.Deleting && len(v.Owners) > 0 {
			if len(orphaned) > 0 {
				return fmt.Errorf("keeps references to an owner that was orphaned")
			}
			if solid == 0 && len(dangling) > 0 && !slices.ContainsFunc(v.Owners, func(o graph.OwnerView) bool { return !dangling[o.Reference] }) {
				return fmt.Errorf("keeps an object though every owner is proved absent")
			}
			if solid > 0 && len(dangling) > 0 {
				return fmt.Errorf("keeps dangling references")
			}
		}
	}
	if (len(d.Verify) > 0) != (d.Action == Verify) || (len(d.Drop) > 0) != (d.Action == Drop) || (d.Policy != "") != (d.Action == Delete) {
		return fmt.Errorf("carries what belongs to another action")
	}
	if !d.Again.IsZero() && !d.Again.After(now) {
		return fmt.Errorf("means to come back at %s, which is past", d.Again)
	}
	if !slices.Contains(Reasons(), d.Reason) {
		return fmt.Errorf("has the reason %q, which is not listed", d.Reason)
	}
	return nil
}

// checkRelease is checkDecision for objects in foreground deletion.
func checkRelease(v *graph.View, o Options, now time.Time, d Decision) error {
	r := v.Record
	if !r.Deleting || !r.Foreground || r.Orphan {
		if d.Action == Release || d.Action == Survey {
			return fmt.Errorf("ends a foreground deletion that there is not")
		}
		return nil
	}
	base := o.Timeout.Base
	if r.SyncTimeout != 0 {
		base = r.SyncTimeout
	}
	passed := func(progress time.Time, descendants int) bool {
		deadline := progress.Add(base).Add(time.Duration(descendants) * o.Timeout.PerDependent)
		if o.NotBefore.After(deadline) {
			deadline = o.NotBefore
		}
		return base > 0 && !deadline.After(now)
	}
	ask := passed(v.Wait.Progress, 0) && v.Survey == nil
	late := passed(v.Wait.Progress, 0) && v.Survey != nil
	if late {
		last := v.Wait.Progress
		if v.Survey.Progress.After(last) {
			last = v.Survey.Progress
		}
		late = passed(last, v.Survey.Descendants)
	}
	known := !v.Wait.Since.IsZero() && !v.SyncedSince.IsZero()
	settled := known && now.Sub(v.Wait.Since) >= 250*time.Millisecond && now.Sub(v.SyncedSince) >= 250*time.Millisecond
	followed := !v.Behind || now.Sub(v.Wait.Since) >= 10*time.Second
	want := Decision{Action: Nothing, Reason: d.Reason}
	switch {
	case v.Blocking == 0 && settled && followed:
		want = Decision{Action: Release, Reason: NothingBlocks}
	case v.Blocking == 0 && known:
		// It takes only seconds, whatever the deadline.
	case ask:
		want.Action = Survey
	case late:
		want = Decision{Action: Release, Reason: TimedOut}
	}
	if d.Action != want.Action || d.Reason != want.Reason {
		return fmt.Errorf("should %s because %s", want.Action, want.Reason)
	}
	if d.Action == Nothing && d.Again.IsZero() && (v.Blocking == 0 || base > 0) {
		return fmt.Errorf("forgets an object in foreground deletion that nothing else will wake")
	}
	return nil
}

// buildOptions reads options from bytes.
func buildOptions(next func() byte) (o Options) {
	b := next()
	if b&3 != 0 {
		o.Timeout = Timeout{Base: time.Minute, PerDependent: time.Second}
	}
	if b&0x1c == 0x1c {
		o.NotBefore = now.Add(time.Duration(int(b)-128) * time.Second)
	}
	return o
}

// buildView reads a view from bytes. It can build every view that the graph can return. The graph finds no owner for
// a reference that cannot be resolved.
func buildView(next func() byte) *graph.View {
	v := &graph.View{Record: &graph.Record{Name: "d", UID: "d"}}
	b := next()
	if b&3 != 0 {
		v.Record.Namespace = "n"
	}
	v.Record.Deleting, v.Record.Foreground, v.Record.Orphan = b&0xc == 0xc, b&0x30 > 0, b&0xc0 == 0xc0
	w := next()
	v.Missing, v.HasDependents = w&7 == 7, w&8 > 0
	if v.Record.Deleting && v.Record.Foreground {
		if w&0x40 != 0 {
			v.Blocking = 1
		}
		if w&0x30 > 0 {
			v.SyncedSince = now.Add(-time.Hour)
		}
		if w&0x80 != 0 {
			v.SyncedSince = now.Add(-SettleFor * time.Duration(w&0x30) / 0x20)
		}
		if w = next(); w&7 != 0 {
			v.Wait.Since = now.Add(SettleFor * time.Duration(int(w)-200) / 50)
		}
		if w&8 != 0 {
			v.Wait.Since = v.Wait.Since.Add(-ObserveFor * time.Duration(w&0x30) / 0x20)
		}
		if w = next(); w&1 != 0 {
			v.Behind = true
		}
		v.Wait.Progress = now.Add(time.Second * time.Duration(int(w)-200))
		if w&6 == 6 {
			v.Survey = &graph.Survey{Descendants: int(w >> 3), Progress: now.Add(time.Second * time.Duration(int(next())-200))}
		}
		v.Record.SyncTimeout = []time.Duration{0, 0, 30 * time.Second, 0, 0, 0, 30 * time.Second, graph.NoTimeout}[next()%8]
	}
	for range next() % 5 {
		kind, state, when := next(), next(), next()
		uid := fmt.Sprint(next() % 6)
		o := graph.OwnerView{
			Reference: graph.Reference{APIVersion: "v1", Kind: "K", Name: uid, UID: types.UID(uid), BlockOwnerDeletion: graph.Flag(kind >> 6 % 3)},
			At:        graph.Coordinates{Kind: "K", Namespace: v.Record.Namespace, Name: uid},
			Fact:      graph.Fact{State: graph.FactState(state % 4)},
		}
		if o.Fact.State == graph.Present {
			o.Fact.Seen = now.Add([]time.Duration{RecheckAfter, RecheckMonitored, WaitingFor, WaitingShown}[kind>>4%4] * time.Duration(int(when)-192) / 48)
			o.Fact.Waiting = state&4 > 0
			o.Fact.Version = []string{"", "4", "5", "x"}[when&3]
		}
		switch kind % 8 {
		case 0: // kind unknown
		case 1:
			o.KindServed = true
		case 2, 3:
			o.KindServed, o.Resource, o.At.Namespace = true, global, ""
		default:
			o.KindServed, o.Resource = true, namespaced
			if kind&8 > 0 {
				o.Resource = unwatched
			}
		}
		if o.Resource != nil && state&0x30 == 0x30 {
			o.Observed = somebody
			if state&0x40 > 0 {
				o.Observed = waiterAt([]string{"", "4", "5", "x"}[when>>2&3])
			} else if when&0x40 > 0 {
				o.Observed = &graph.Record{ResourceVersion: []string{"", "4", "5", "x"}[when>>2&3]}
			}
			if o.Fact.Proved() {
				o.Fact = graph.Fact{} // what is shown is not proved absent
			}
		}
		o.Orphaned = o.Observed == nil && state&0x88 == 0x88
		v.Owners = append(v.Owners, o)
	}
	// One reference has one judgement, however often it is listed.
	for i := range v.Owners {
		for j := range v.Owners[:i] {
			if v.Owners[i].Reference == v.Owners[j].Reference {
				v.Owners[i] = v.Owners[j]
			}
		}
	}
	v.Record.References = make([]graph.Reference, len(v.Owners))
	for i := range v.Owners {
		v.Record.References[i] = v.Owners[i].Reference
	}
	return v
}

func TestSafetyByTheMillion(t *testing.T) {
	n := size.Of(100_000, 1_000_000, 5_000_000)
	r := rand.New(rand.NewPCG(1, 2))
	next := func() byte { return byte(r.Uint32()) }
	actions := map[Action]int{}
	for i := range n {
		v, o := buildView(next), buildOptions(next)
		d := Decide(v, o, now)
		actions[d.Action]++
		if err := checkDecision(v, o, now, d); err != nil {
			t.Fatalf("view %d: the decision %v\n%+v\nabout %+v\n%+v", i, err, d, *v.Record, v.Owners)
		}
	}
	size.Power(t, fmt.Sprintf("views=%d", n))
	for a := Nothing; a <= Survey; a++ {
		if actions[a] < n/200 {
			t.Errorf("%s came up %d times in %d views: the search is blind there", a, actions[a], n)
		}
	}
}

// FuzzDecide checks the same property over views read from bytes, and that Decide is pure.
func FuzzDecide(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 40 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		build := func() (*graph.View, Options) {
			in := b
			next := func() byte {
				if len(in) == 0 {
					return 0
				}
				c := in[0]
				in = in[1:]
				return c
			}
			return buildView(next), buildOptions(next)
		}
		v, o := build()
		untouched, _ := build()
		d := Decide(v, o, now)
		if err := checkDecision(v, o, now, d); err != nil {
			t.Fatalf("the decision %v\n%+v\nabout %+v\n%+v", err, d, *v.Record, v.Owners)
		}
		if !reflect.DeepEqual(v, untouched) {
			t.Fatalf("deciding changed the view:\n%+v\nwas\n%+v", v, untouched)
		}
		if again := Decide(v, o, now); !reflect.DeepEqual(d, again) {
			t.Fatalf("the same view gives\n%+v\nand then\n%+v", d, again)
		}
	})
}

// TestDecisionSharesNothingWithTheView: what a decision holds may be kept and changed.
func TestDecisionSharesNothingWithTheView(t *testing.T) {
	v := &graph.View{Record: &graph.Record{Namespace: "n"}, Owners: []graph.OwnerView{owner("a", nil)}}
	d := Decide(v, Options{}, now)
	d.Verify[0].Fact = absent
	if v.Owners[0].Fact == absent {
		t.Error("changing a decision changed the view")
	}
}
