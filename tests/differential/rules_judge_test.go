package differential

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Comparing two collectors cannot find wrong deletions that both make. The rules can.
func TestRulesFindMistakesThatBothCollectorsMake(t *testing.T) {
	w := &world{objects: []*thing{
		{kind: configMaps, name: "owner", ns: "n"}, {kind: secrets, name: "other", ns: "n"}, {kind: configMaps, name: "object", ns: "n"},
	}}
	uids := []types.UID{"owner", "other", "object"}
	to := func(i int, block bool) metav1.OwnerReference {
		o := w.objects[i]
		return metav1.OwnerReference{APIVersion: "v1", Kind: o.kind.kind, Name: o.name, UID: uids[i], BlockOwnerDeletion: &block}
	}
	unknown := to(0, true)
	unknown.APIVersion = "example.invalid/v1"
	// The states of an object come at the revisions that are given.
	state := func(from uint64, deleting bool, finalizer string, refs ...metav1.OwnerReference) past {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetOwnerReferences(refs)
		if finalizer != "" {
			o.SetFinalizers([]string{finalizer})
		}
		if deleting {
			now := metav1.Now()
			o.SetDeletionTimestamp(&now)
		}
		return past{from: from, meta: o}
	}
	gone := func(p past, from uint64) past { return past{from, true, p.meta} }
	lives, waits, leaves := state(1, false, ""), state(4, true, metav1.FinalizerDeleteDependents), state(4, true, metav1.FinalizerOrphanDependents)
	object := state(3, false, "", to(0, true), to(1, true))
	for _, tc := range []struct {
		name    string
		states  [][]past
		policy  metav1.DeletionPropagation // of the owner's deletion
		want    string                     // what is wrong
		deleted int                        // by users
	}{
		{"both owners are gone", [][]past{{lives, gone(lives, 5)}, {lives, gone(lives, 6)}, {object, gone(object, 7)}}, background, "", 2},
		{"an owner exists", [][]past{{lives, gone(lives, 5)}, {lives}, {object, gone(object, 7)}}, background, "is solid, and it was deleted", 1},
		{"an owner goes afterwards", [][]past{{lives, gone(lives, 5)}, {lives, gone(lives, 8)}, {object, gone(object, 7)}}, background, "is solid, and it was deleted", 2},
		{"an owner waits", [][]past{{lives, waits}, {lives, gone(lives, 5)}, {object, gone(object, 7)}}, foreground, "", 2},
		{"an owner was orphaned", [][]past{{lives, leaves, gone(leaves, 8)}, {lives, gone(lives, 5)}, {object, gone(object, 7)}}, orphan, "is orphaned, and it was deleted", 2},
		{"it had none", [][]past{{lives}, {lives}, {lives, gone(lives, 7)}}, background, "had no owner to lose", 0},
		{"an unknown owner", [][]past{{lives}, {lives}, {state(3, false, "", unknown), gone(state(3, false, "", unknown), 7)}}, background, "is unprovable", 0},
		{"a solid reference is dropped", [][]past{{lives}, {lives}, {object, state(7, false, "", to(1, true))}}, background, "is solid, and was dropped", 0},
		{"a dangling one is dropped", [][]past{{lives, gone(lives, 5)}, {lives}, {object, state(7, false, "", to(1, true))}}, background, "", 1},
		{"it holds no longer", [][]past{{lives}, {lives}, {object, state(7, false, "", to(0, false), to(1, true))}}, background, "was dropped", 0},
		{"the owner waits no longer", [][]past{{lives, waits, gone(waits, 5)}, {lives}, {object}}, foreground, "still names it", 1},
		{"the owner left it behind", [][]past{{lives, leaves, gone(leaves, 8)}, {lives}, {object, state(7, false, "", to(1, true))}}, orphan, "", 1},
		{"the owner is let go too early", [][]past{{lives, leaves, gone(leaves, 5)}, {lives}, {object}}, orphan, "still names it", 1},
	} {
		s := &side{uids: [][]types.UID{uids}, history: &history{states: map[types.UID][]past{}}}
		asked := map[int][]metav1.DeletionPropagation{}
		for i, uid := range uids {
			s.history.states[uid] = tc.states[i]
			if i < tc.deleted {
				asked[i] = []metav1.DeletionPropagation{tc.policy}
			}
		}
		got := strings.Join((&rules{side: s, w: w, asked: asked}).judge(), "; ")
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestRulesKnowWhatIsUnfinished has states that a collector at rest does not leave.
func TestRulesKnowWhatIsUnfinished(t *testing.T) {
	w := &world{objects: []*thing{{kind: configMaps, name: "owner", ns: "n"}, {kind: secrets, name: "object", ns: "n"}, {kind: secrets, name: "below", ns: "elsewhere"}, {kind: clusterRoles, name: "role"}, {kind: clusterRoles, name: "above"}}}
	ofRole := ref{4, "rbac.authorization.k8s.io/v9", "ClusterRole", "above", "true"}
	of := func(block string) ref { return ref{0, "v1", "ConfigMap", "owner", block} }
	waits := &state{deleting: true, finalizers: []string{metav1.FinalizerDeleteDependents}}
	leaves := &state{deleting: true, finalizers: []string{metav1.FinalizerOrphanDependents}}
	nobody, unknown := ref{-1, "v1", "ConfigMap", "nobody", "unset"}, ref{0, "example.invalid/v1", "ConfigMap", "owner", "true"}
	for _, tc := range []struct {
		name string
		now  map[int]*state
		bad  int
	}{
		{"it has its owner", map[int]*state{0: {}, 1: {refs: []ref{of("true")}}}, 0},
		{"its owner is gone", map[int]*state{1: {refs: []ref{of("true")}}}, 1},
		{"its owner waits, and it is not deleted", map[int]*state{0: waits, 1: {refs: []ref{of("true")}}}, 1},
		{"it is deleted and held", map[int]*state{0: waits, 1: {deleting: true, finalizers: []string{hold}, refs: []ref{of("true")}}}, 0},
		{"what holds the owner does not block", map[int]*state{0: waits, 1: {deleting: true, finalizers: []string{hold}, refs: []ref{of("false")}}}, 1},
		{"what names the owner is elsewhere", map[int]*state{0: waits, 2: {deleting: true, finalizers: []string{hold}, refs: []ref{of("true")}}}, 1},
		{"one of unknown kind is", map[int]*state{0: waits, 2: {refs: []ref{unknown}}}, 1},
		{"one of unknown kind, of no namespace, is", map[int]*state{0: waits, 3: {refs: []ref{unknown}}}, 1},
		{"one of unknown kind, of no namespace, as the owner is", map[int]*state{4: waits, 3: {refs: []ref{ofRole}}}, 0},
		{"one of unknown kind is here", map[int]*state{0: waits, 1: {refs: []ref{unknown}}}, 0},
		{"a solid owner and one that is none", map[int]*state{0: {}, 1: {refs: []ref{of("true"), nobody}}}, 1},
		{"an unknown owner and one that is none", map[int]*state{0: {}, 1: {refs: []ref{unknown, nobody}}}, 0},
		{"an orphaning goes on", map[int]*state{0: leaves}, 1},
	} {
		if bad := (&rules{w: w}).unfinished(tc.now); len(bad) != tc.bad {
			t.Errorf("%s: %q", tc.name, bad)
		}
	}
}

const (
	background = metav1.DeletePropagationBackground
	foreground = metav1.DeletePropagationForeground
	orphan     = metav1.DeletePropagationOrphan
)
