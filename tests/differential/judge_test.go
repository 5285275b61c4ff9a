package differential

import "testing"

// TestOwnerLookedForElsewhere has a world that came out that way: a ClusterRole that names a ConfigMap which is
// gone, with dependents of its own.
func TestOwnerLookedForElsewhere(t *testing.T) {
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
		if reasons, bad, final := judge(w, tc.ours, tc.theirs); len(bad) != tc.bad || final != (tc.bad == 0) {
			t.Errorf("%s: permitted %q, not permitted %q", tc.name, reasons, bad)
		}
	}
	// Nobody with a namespace names it: there is no other namespace to look in.
	w.objects[2].refs = nil
	if _, bad, _ := judge(w, left(1, 3), left()); len(bad) != 2 {
		t.Errorf("without a dependent in a namespace: not permitted %q", bad)
	}
}
