package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/pkg/gc/report"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// newFakeCluster returns a cluster without a collector, whose namespace ns has an owner with so many dependents, and a
// kubeconfig for it. Each request is shown to seen first, unless that is nil.
func newFakeCluster(t *testing.T, dependents int, seen func(*http.Request)) (kubeconfig string) {
	t.Helper()
	s := fakeapi.New()
	if err := s.Create("configmaps", metav1.ObjectMeta{Namespace: "ns", Name: "owner"}); err != nil {
		t.Fatal(err)
	}
	owners := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "owner-1"}}
	for i := range dependents {
		if err := s.Create("configmaps", metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("dependent-%05d", i), OwnerReferences: owners}); err != nil {
			t.Fatal(err)
		}
	}
	return serveFake(t, s, seen)
}

// serveFake serves an API, and returns a kubeconfig for it.
func serveFake(t *testing.T, s *fakeapi.Server, seen func(*http.Request)) (kubeconfig string) {
	t.Helper()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if seen != nil {
			seen(r)
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	writeFile(t, kubeconfig, "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n- {name: a, cluster: {server: '"+
		h.URL+"'}}\ncontexts:\n- {name: a, context: {cluster: a}}\n")
	return kubeconfig
}

// A program may look at any of the documents, and each says what its answer rests on.
func TestWhyGivesEachDocumentItsBasis(t *testing.T) {
	kubeconfig := newFakeCluster(t, 2, nil)
	args := strings.Fields("why configmaps/owner configmaps/dependent-00000 configmaps/dependent-00001 -n ns --kubeconfig " + kubeconfig)
	got := reap(t, nil, append(args, "-o", "json")...)
	documents := json.NewDecoder(strings.NewReader(got.stdout))
	count := 0
	for ; documents.More(); count++ {
		var w report.Why
		if err := documents.Decode(&w); err != nil {
			t.Fatal(err)
		}
		if w.Basis.Source != report.FromListing || !strings.Contains(w.Basis.Note, "no collector of reap answers") {
			t.Errorf("document %d has the basis %+v", count, w.Basis)
		}
	}
	if got.code != exitOK || count != 3 {
		t.Errorf("there are %d documents: %+v", count, got)
	}
	if got := reap(t, nil, args...); strings.Count(got.stdout, "no collector of reap answers") != 1 {
		t.Errorf("people are told more than once, or not at all:\n%s", got.stdout)
	}
}

func TestTreeForProgramsIsWhole(t *testing.T) {
	kubeconfig := newFakeCluster(t, treeLimit+50, nil)
	for args, want := range map[string]int{"": treeLimit + 51, "--limit 7": 7, "--limit 0": treeLimit + 51} {
		got := reap(t, nil, append(strings.Fields("tree -n ns -o json --kubeconfig "+kubeconfig), strings.Fields(args)...)...)
		var tree report.Tree
		if err := json.Unmarshal([]byte(got.stdout), &tree); err != nil {
			t.Fatalf("%v: %+v", err, got)
		}
		if tree.Count != treeLimit+51 || len(tree.Nodes) != want {
			t.Errorf("with %q it shows %d of %d objects, want %d", args, len(tree.Nodes), tree.Count, want)
		}
	}
	got := reap(t, nil, strings.Fields("tree -n ns -o dot --kubeconfig "+kubeconfig)...)
	if edges := strings.Count(got.stdout, "->"); edges > treeLimit {
		t.Errorf("a drawing has %d edges", edges)
	}
}

// The objects are part of a URL, which a server takes up to a length.
func TestTreesOfManyObjectsAreListed(t *testing.T) {
	var mu sync.Mutex
	long := 0
	kubeconfig := newFakeCluster(t, namedAtOnce, func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		long = max(long, len(r.URL.RawQuery))
	})
	got := reap(t, nil, strings.Fields("tree configmaps -n ns --limit 1 -o json --kubeconfig "+kubeconfig)...)
	var tree report.Tree
	if err := json.Unmarshal([]byte(got.stdout), &tree); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	mu.Lock()
	defer mu.Unlock()
	if tree.Count != namedAtOnce+1 || !strings.Contains(tree.Basis.Note, "2000 objects at once") || long > 1000 {
		t.Errorf("%d objects, %q, a query of %d bytes", tree.Count, tree.Basis.Note, long)
	}
}
