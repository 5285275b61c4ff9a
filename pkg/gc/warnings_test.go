package gc

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

var (
	widgets    = schema.GroupResource{Group: "example.com", Resource: "widgets"}
	widgetKind = schema.GroupKind{Group: "example.com", Kind: "Widget"}
)

// withWidgets adds a cluster-scoped resource that the store does not serve.
func withWidgets(c *Collector) {
	c.graph.SetCatalog(graph.NewCatalog(append(c.graph.Catalog().Resources(), &graph.Resource{
		Group: widgets.Group, Name: widgets.Resource, Kind: widgetKind.Kind, Versions: []string{"v1"}, Monitored: true,
	})), c.now())
	c.graph.AddResource(widgets, widgetKind, c.now())
}

// TestReferencesIntoWrongNamespacesAreReportedOnce: each reference once; of an object with many
// references, only the first few.
func TestReferencesIntoWrongNamespacesAreReportedOnce(t *testing.T) {
	c, s := collector(t, false)
	withWidgets(c)
	told := hear(c)
	attempts := func(k graph.Key, want int) {
		t.Helper()
		told.Reset()
		for range 2 {
			if err := attemptOnce(t, c, k); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(told.AllEntries()); n != want {
			t.Errorf("users are told %d times, want %d", n, want)
		}
	}
	widget := func(uid string, owners int) graph.Key {
		m := &metav1.ObjectMeta{Name: uid, UID: types.UID(uid), ResourceVersion: "1"}
		for i := range owners {
			m.OwnerReferences = append(m.OwnerReferences, ref(fmt.Sprint("owner", i), types.UID(fmt.Sprint(uid, i))))
		}
		c.graph.Upsert(widgets, graph.RecordOf(m), c.now())
		return graph.Key{Resource: widgets, UID: m.UID}
	}
	attempts(widget("one", 1), 1)
	attempts(widget("two", 2), 2)
	attempts(widget("many", namedObjects+2), namedObjects)

	// An object in another namespace is not the owner here.
	far := s.put("far", "f")
	far.Namespace = "elsewhere"
	show(c, far)
	delete(s.objects, "far")
	attempts(show(c, s.put("near", "n", ref("far", "f"))), 1)
	// Users are not told of an owner in the right namespace.
	show(c, s.put("owner", "o"))
	attempts(show(c, s.put("child", "c", ref("owner", "o"))), 0)
}

func TestNamesSayTheNamespaceOnlyIfItIsAnother(t *testing.T) {
	some := []graph.Node{
		{Key: key("a"), Record: &graph.Record{Namespace: "ns", Name: "a"}},
		{Key: key("b"), Record: &graph.Record{Namespace: "other", Name: "b"}},
		{Key: graph.Key{Resource: widgets}, Record: &graph.Record{Name: "c"}},
	}
	if got, want := names(some, 4, "ns"), "configmaps/a, configmaps/other/b, widgets.example.com/c, …"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestLongReferencesAreToldInShort: whoever writes a reference chooses its texts, up to the size of an object.
func TestLongReferencesAreToldInShort(t *testing.T) {
	c, _ := collector(t, false)
	withWidgets(c)
	told := hear(c)
	for i := range 3 {
		long := strings.Repeat("x", 1<<20) + fmt.Sprint(i)
		m := &metav1.ObjectMeta{Name: "w", UID: "w", ResourceVersion: "1", OwnerReferences: []metav1.OwnerReference{ref(long, types.UID(long))}}
		c.graph.Upsert(widgets, graph.RecordOf(m), c.now())
		if err := attemptOnce(t, c, graph.Key{Resource: widgets, UID: m.UID}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(told.AllEntries()); n != 3 {
		t.Fatalf("users are told %d times of three references", n)
	}
	if n := len(told.LastEntry().Message); n > 1000 {
		t.Errorf("the message has %d bytes", n)
	}
}
