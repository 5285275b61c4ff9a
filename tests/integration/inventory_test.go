package integration

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// inventory is everything that a server holds: a line that says what an object is, and one that says
// which and in what state.
type inventory map[string]string

// inventory lists every object of every kind, but for those that come and go by themselves.
func (s *server) inventory(t *testing.T) inventory {
	t.Helper()
	lists, err := discovery.ServerPreferredResources(s.kube.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	found := inventory{}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range l.APIResources {
			gvr := gv.WithResource(r.Name)
			if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete") && r.Name != "events" && r.Name != "leases" {
				s.addAll(t, gvr, found)
			}
		}
	}
	return found
}

func (s *server) addAll(t *testing.T, gvr schema.GroupVersionResource, found inventory) {
	t.Helper()
	list, err := s.meta.Resource(gvr).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("listing %s: %v", gvr, err)
	}
	for _, o := range list.Items {
		state := "uid " + string(o.UID)
		// The API server itself updates what it keeps for itself; nobody else may touch what tests made.
		if gvr.Resource == configMaps.gvr.Resource || gvr.Resource == secrets.gvr.Resource || gvr.Group == testGroup {
			state += ", version " + o.ResourceVersion
		}
		found[line(gvr.GroupResource(), o.Namespace, o.Name)] = state
	}
}

func line(gr schema.GroupResource, namespace, name string) string {
	return fmt.Sprintf("%s %s/%s", gr, namespace, name)
}

// many returns the lines of what createMany makes.
func many(n int, k kind, ns, name string) []string {
	var lines []string
	for i := range n {
		lines = append(lines, line(k.gvr.GroupResource(), ns, fmt.Sprintf("%s-%d", name, i)))
	}
	return lines
}

// mustBe fails the test unless after is before without gone. What came new is not looked at: nothing
// that deletes makes objects.
func (before inventory) mustBe(t *testing.T, after inventory, gone []string) {
	t.Helper()
	want := map[string]bool{}
	for _, g := range gone {
		want[g] = true
		if _, ok := before[g]; !ok {
			t.Errorf("%s was not there", g)
		}
	}
	for l, state := range before {
		now, there := after[l]
		switch {
		case want[l] && there:
			t.Errorf("%s is still there", l)
		case !want[l] && !there:
			t.Errorf("%s is gone", l)
		case !want[l] && now != state:
			t.Errorf("%s was %s and is %s", l, state, now)
		}
	}
}
