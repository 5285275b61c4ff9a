package differential

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// The world comes from a real run: a ClusterRole has dependents and names a ConfigMap that is gone.
func TestJudgeKnowsOwnersLookedUpElsewhere(t *testing.T) {
	of := func(owner int, k *kind, name, wrong string) reference {
		return reference{owner: owner, apiVersion: k.gvr.GroupVersion().String(), kind: k.kind, name: name, wrong: wrong}
	}
	w := &world{objects: []*thing{
		{kind: configMaps, name: "config", ns: "n"},
		{kind: clusterRoles, name: "role", refs: []reference{of(0, configMaps, "config", "scope")}},
		{kind: secrets, name: "secret", ns: "n", refs: []reference{of(1, clusterRoles, "role", "")}},
		{kind: clusterRoles, name: "below", refs: []reference{of(1, clusterRoles, "role", "")}},
	}}
	left := func(objects ...int) map[int]*state {
		all := map[int]*state{}
		for _, i := range objects {
			s := &state{}
			for _, r := range w.objects[i].refs {
				s.refs = append(s.refs, ref{r.owner, r.apiVersion, r.kind, r.name, "unset"})
			}
			all[i] = s
		}
		return all
	}
	for _, tc := range []struct {
		name         string
		ours, theirs map[int]*state
		bad          int
	}{
		{"the owner is gone", left(1, 2, 3), left(), 0},
		{"the owner is where they look", left(0, 1, 2, 3), left(0), 3},
		{"reap is the one that deletes", left(), left(1, 2, 3), 3},
		{"only the dependents go", left(1, 2, 3), left(1), 2},
	} {
		if reasons, bad, final := judge(w, tc.ours, tc.theirs, nil, nil); len(bad) != tc.bad || final != (tc.bad == 0) {
			t.Errorf("%s: permitted %q, not permitted %q", tc.name, reasons, bad)
		}
	}
	// Nobody with a namespace names it: there is no other namespace to look in.
	w.objects[2].refs = nil
	if _, bad, _ := judge(w, left(1, 3), left(), nil, nil); len(bad) != 2 {
		t.Errorf("without a dependent in a namespace: not permitted %q", bad)
	}
}

// The owner waited for an object that another owner keeps, and is now held by a finalizer.
func TestJudgeKnowsOwnersThatHaveWaited(t *testing.T) {
	w := &world{
		objects: []*thing{{kind: configMaps, name: "keeps", ns: "n"}, {kind: configMaps, name: "held", ns: "n", held: true}, {kind: secrets, name: "secret", ns: "n"}},
	}
	of := func(owner int) ref { return ref{owner, "v1", "ConfigMap", w.objects[owner].name, "unset"} }
	unknown := ref{0, "example.invalid/v1", "ConfigMap", "keeps", "unset"}
	left := func(held state, refs ...ref) map[int]*state {
		return map[int]*state{0: {}, 1: &held, 2: {refs: refs}}
	}
	ended, waits := state{deleting: true, finalizers: []string{hold}}, state{deleting: true, finalizers: []string{"foregroundDeletion", hold}}
	for _, tc := range []struct {
		name         string
		ours, theirs map[int]*state
		permitted    bool
	}{
		{"dropped here", left(ended, of(0)), left(ended, of(0), of(1)), true},
		{"dropped there", left(ended, of(0), of(1)), left(ended, of(0)), true},
		{"not dropped though it waits", left(waits, of(0), of(1)), left(waits, of(0)), false},
		{"dropped beside an unknown one, which upstream cannot judge", left(ended, of(0), unknown), left(ended, of(0), of(1), unknown), true},
		{"one that exists is dropped", left(ended, of(1)), left(ended, of(0), of(1)), false},
		{"nobody has deleted it", left(state{}, of(0)), left(state{}, of(0), of(1)), false},
	} {
		if reasons, bad, _ := judge(w, tc.ours, tc.theirs, map[int]bool{1: true}, nil); (len(bad) == 0) != tc.permitted {
			t.Errorf("%s: permitted %q, not permitted %q", tc.name, reasons, bad)
		}
	}
	if reasons, bad, _ := judge(w, left(ended, of(0)), left(ended, of(0), of(1)), map[int]bool{0: true}, nil); len(bad) == 0 {
		t.Errorf("of an owner that nobody has seen waiting it is permitted to drop a reference: %q", reasons)
	}
}

// The world comes from a real run: an object whose owner waited only for a moment, and is now held by a finalizer, is deleted if the collector looked at
// it during that moment.
func TestJudgeKnowsDependentsOfOwnersThatWaitedForAMoment(t *testing.T) {
	w := &world{objects: []*thing{
		{kind: configMaps, name: "held", ns: "n", held: true}, {kind: configMaps, name: "dependent", ns: "n"}, {kind: configMaps, name: "below", ns: "n"},
	}}
	of := func(owner int) ref { return ref{owner, "v1", "ConfigMap", w.objects[owner].name, "false"} }
	left := func(owner state, below bool, refs ...ref) map[int]*state {
		all := map[int]*state{0: &owner}
		if len(refs) > 0 {
			all[1] = &state{refs: refs}
		}
		if below {
			all[2] = &state{refs: []ref{of(1)}}
		}
		return all
	}
	ended, waits := state{deleting: true, finalizers: []string{hold}}, state{deleting: true, finalizers: []string{"foregroundDeletion", hold}}
	seen := map[int]bool{0: true}
	elsewhere := of(0)
	elsewhere.name = "another"
	for _, tc := range []struct {
		name      string
		one       map[int]*state
		other     map[int]*state
		waited    map[int]bool
		permitted bool
	}{
		{"the dependent stays", left(ended, false, of(0)), left(ended, false), seen, true},
		{"and what is below it", left(ended, true, of(0)), left(ended, false), seen, true},
		{"the owner waits still", left(waits, false, of(0)), left(waits, false), seen, false},
		{"the owner has never waited", left(ended, false, of(0)), left(ended, false), nil, false},
		{"nobody has deleted the owner", left(state{}, false, of(0)), left(state{}, false), seen, false},
		{"it names another", left(ended, false, elsewhere), left(ended, false), seen, false},
		{"only what is below goes", left(ended, true, of(0)), left(ended, false, of(0)), seen, false},
	} {
		for _, pair := range [][2]map[int]*state{{tc.one, tc.other}, {tc.other, tc.one}} {
			if reasons, bad, final := judge(w, pair[0], pair[1], tc.waited, nil); (len(bad) == 0) != tc.permitted || tc.permitted && !final {
				t.Errorf("%s: permitted %q, not permitted %q", tc.name, reasons, bad)
			}
		}
	}
}

// The world comes from a real run: an object names an owner by another name, beside one that keeps it and one of an unknown kind. The two latter
// are orphaned. Only upstream has left the object the reference to the first, and collects it.
func TestJudgeKnowsWhatReapFreesAndUpstreamCollects(t *testing.T) {
	w := &world{objects: []*thing{
		{kind: secrets, name: "secret", ns: "n", held: true}, {kind: configMaps, name: "unknown", ns: "n"},
		{kind: configMaps, name: "object", ns: "n", refs: []reference{
			{owner: 0, apiVersion: "v1", kind: "Secret", name: "another", wrong: "name"}, {owner: 1, apiVersion: "v1", kind: "Nothing", name: "unknown", wrong: "unknown kind"},
		}},
		{kind: configMaps, name: "below", ns: "n"},
	}}
	uids := []types.UID{"secret", "unknown", "object", "below"}
	const another, rightly, unprovable = "another", "secret", ""
	// history has the references that the object had last.
	history := func(names ...string) func(int) []past {
		return func(i int) []past {
			o := &unstructured.Unstructured{Object: map[string]any{}}
			o.SetUID(uids[i])
			if i == 2 {
				var refs []metav1.OwnerReference
				for _, name := range names {
					r := metav1.OwnerReference{APIVersion: "v1", Kind: "Secret", Name: name, UID: uids[0]}
					if name == unprovable {
						r = metav1.OwnerReference{APIVersion: "v1", Kind: "Nothing", Name: "unknown", UID: uids[1]}
					}
					refs = append(refs, r)
				}
				o.SetOwnerReferences(refs)
			}
			return []past{{from: 1, meta: o}}
		}
	}
	// left has the objects that are there.
	left := func(object, below bool, refs ...ref) map[int]*state {
		all := map[int]*state{0: {finalizers: []string{hold}}}
		if object {
			all[2] = &state{refs: refs}
		}
		if below {
			all[3] = &state{refs: []ref{{2, "v1", "ConfigMap", "object", "unset"}}}
		}
		return all
	}
	for _, tc := range []struct {
		name         string
		ours, theirs map[int]*state
		history      func(int) []past
		bad          int
	}{
		{"as it happens", left(true, false), left(false, false), history(another), 0},
		{"and what is below it", left(true, true), left(false, false), history(another), 0},
		{"only what is below goes", left(true, true), left(true, false), history(another), 1},
		{"an owner was there", left(true, false), left(false, false), history(another, rightly), 1},
		{"what nobody can prove was still there", left(true, false), left(false, false), history(another, unprovable), 1},
		{"nothing was left", left(true, false), left(false, false), history(), 1},
		{"reap has dropped nothing", left(true, false, ref{0, "v1", "Secret", "another", "unset"}), left(false, false), history(another), 1},
		{"reap is the one that deletes", left(false, false), left(true, false), history(another), 1},
	} {
		if reasons, bad, final := judge(w, tc.ours, tc.theirs, nil, tc.history); len(bad) != tc.bad || final != (tc.bad == 0) {
			t.Errorf("%s: permitted %q, not permitted %q", tc.name, reasons, bad)
		}
	}
	w.objects[2].refs = w.objects[2].refs[:1]
	if reasons, bad, _ := judge(w, left(true, false), left(false, false), nil, history(another)); len(bad) != 1 {
		t.Errorf("without an unknown kind: permitted %q, not permitted %q", reasons, bad)
	}
}

// The world comes from a real run: an object has two owners in foreground deletion, of which one waited only for a moment. Before and after
// that moment the collector drops the object's reference to the other owner; during it the collector deletes the object and drops nothing.
func TestJudgeKnowsWhoWaitsForWhatWasKeptForAMoment(t *testing.T) {
	w := &world{objects: []*thing{
		{kind: configMaps, name: "moment", ns: "n", held: true}, {kind: configMaps, name: "waits", ns: "n", held: true},
		{kind: secrets, name: "secret", ns: "n", held: true},
	}}
	held, waits := state{deleting: true, finalizers: []string{hold}}, state{deleting: true, finalizers: []string{"foregroundDeletion", hold}}
	moment, blocks := ref{0, "v1", "ConfigMap", "moment", "false"}, ref{1, "v1", "ConfigMap", "waits", "true"}
	left := func(first, second state, refs ...ref) map[int]*state {
		return map[int]*state{0: &first, 1: &second, 2: {deleting: true, finalizers: []string{hold}, refs: refs}}
	}
	both := map[int]bool{0: true, 1: true}
	for _, tc := range []struct {
		name         string
		ours, theirs map[int]*state
		waited       map[int]bool
		permitted    bool
	}{
		{"lost there", left(held, waits, moment, blocks), left(held, held, moment), both, true},
		{"lost here", left(held, held, moment), left(held, waits, moment, blocks), both, true},
		{"nothing lost, and only one waits", left(held, waits, moment, blocks), left(held, held, moment, blocks), both, false},
		{"what keeps it has never waited", left(held, waits, moment, blocks), left(held, held, moment), map[int]bool{1: true}, false},
		{"what keeps it waits still", left(waits, waits, moment, blocks), left(waits, held, moment), both, false},
		{"nobody has deleted what keeps it", left(state{}, waits, moment, blocks), left(state{}, held, moment), both, false},
		{"nothing keeps it", left(held, waits, blocks), left(held, held), both, false},
		{"another finalizer has gone too", left(held, waits, moment, blocks), left(held, state{deleting: true}, moment), both, false},
	} {
		if reasons, bad, final := judge(w, tc.ours, tc.theirs, tc.waited, nil); (len(bad) == 0) != tc.permitted || tc.permitted && !final {
			t.Errorf("%s: permitted %q, not permitted %q", tc.name, reasons, bad)
		}
	}
}

// Upstream has taken "middle" for a part of a ring, since its owner and its dependent waited: the owner waits no more.
func TestJudgeKnowsWhatUpstreamUnblocksOnAGuess(t *testing.T) {
	w := &world{objects: []*thing{
		{kind: configMaps, name: "owner", ns: "n"}, {kind: configMaps, name: "middle", ns: "n"}, {kind: configMaps, name: "below", ns: "n"}, {kind: secrets, name: "held", ns: "n", held: true},
	}}
	of := func(owner int, block string) []ref {
		return []ref{{owner, "v1", "ConfigMap", w.objects[owner].name, block}}
	}
	waits := func(refs []ref) *state {
		return &state{deleting: true, finalizers: []string{metav1.FinalizerDeleteDependents}, refs: refs}
	}
	left := func(owner *state, block string) map[int]*state {
		all := map[int]*state{1: waits(of(0, block)), 2: waits(of(1, "true")), 3: {deleting: true, finalizers: []string{hold}, refs: of(2, "true")}}
		if owner != nil {
			all[0] = owner
		}
		return all
	}
	uids := []types.UID{"owner", "middle", "below", "held"}
	was := func(from uint64, i, owner int, waiting, block bool) past {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetUID(uids[i])
		if owner >= 0 {
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: w.objects[owner].name, UID: uids[owner], BlockOwnerDeletion: &block}})
		}
		if waiting {
			now := metav1.Now()
			o.SetDeletionTimestamp(&now)
			o.SetFinalizers([]string{metav1.FinalizerDeleteDependents})
		}
		return past{from: from, meta: o}
	}
	gone := func(from uint64) past { return past{from, true, was(from, 0, -1, true, false).meta} }
	// history has these moments: the owner and what is below wait, "middle" is unblocked and waits, the owner ends.
	history := func(owner, below, unblocked, end uint64) [][]past {
		return [][]past{
			{was(1, 0, -1, false, false), was(owner, 0, -1, true, false), gone(end)},
			{was(2, 1, 0, false, true), was(unblocked, 1, 0, false, false), was(unblocked+1, 1, 0, true, false)},
			{was(3, 2, 1, false, true), was(below, 2, 1, true, true)},
			{was(4, 3, 2, false, true)},
		}
	}
	never := history(11, 10, 12, 20)
	never[0] = []past{never[0][0], gone(20)}
	for _, tc := range []struct {
		name      string
		theirs    map[int]*state
		history   [][]past
		permitted bool
	}{
		{"as it happens", left(nil, "false"), history(11, 10, 12, 20), true},
		{"the owner has not waited, and ended in the background", left(nil, "false"), never, false},
		{"the owner waited only later", left(nil, "false"), history(14, 10, 12, 20), false},
		{"what is below waited only later", left(nil, "false"), history(11, 14, 12, 20), false},
		{"the owner ended while it was blocked", left(nil, "false"), history(10, 8, 20, 12), false},
		{"the owner is not deleted", left(&state{}, "false"), history(11, 10, 12, 20), false},
		{"the owner has a finalizer more", left(&state{deleting: true, finalizers: []string{hold}}, "false"), history(11, 10, 12, 20), false},
		{"nothing is unblocked", left(nil, "true"), history(11, 10, 12, 20), false},
	} {
		reasons, bad, final := judge(w, left(waits(nil), "true"), tc.theirs, map[int]bool{0: true, 1: true, 2: true}, func(i int) []past { return tc.history[i] })
		if (len(bad) == 0) != tc.permitted || tc.permitted && !final {
			t.Errorf("%s: permitted %q, not permitted %q", tc.name, reasons, bad)
		}
	}
}
