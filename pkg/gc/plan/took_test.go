package plan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// TestTookEndsWithTheLastEvent: deadlines of objects that are gone by then take no time. The ring
// is broken within seconds.
func TestTookEndsWithTheLastEvent(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	configMaps := schema.GroupResource{Resource: "configmaps"}
	g := graph.New()
	g.SetCatalog(graph.NewCatalog([]*graph.Resource{{Name: "configmaps", Kind: "ConfigMap", Versions: []string{"v1"}, Namespaced: true, Monitored: true}}), now)
	g.AddResource(configMaps, schema.GroupKind{Kind: "ConfigMap"}, now)
	for name, owner := range map[string]string{"left": "right", "right": "left"} {
		g.Upsert(configMaps, &graph.Record{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: "1", References: []graph.Reference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: owner, UID: types.UID(owner), BlockOwnerDeletion: graph.True}}}, now)
	}
	g.Listed(configMaps, now)
	rules := Rules{Options: decide.Options{Timeout: decide.Timeout{Base: 10 * time.Minute}}, Rings: true}
	res := must(Take(g, []graph.Key{{Resource: configMaps, UID: "left"}}).Delete(t.Context(), metav1.DeletePropagationForeground, rules, now))
	if len(res.Objects) != 2 || res.Objects[0].Fate != Gone || res.Objects[1].Fate != Gone || len(res.Rings) != 1 {
		t.Fatalf("%+v", res)
	}
	if res.Took > 5*time.Second {
		t.Errorf("the deletion takes %s, want at most 5s", res.Took)
	}
}

// TestOwnerGoesAsSoonAsNothingBlocks: it is not looked at only when its deadline comes.
func TestOwnerGoesAsSoonAsNothingBlocks(t *testing.T) {
	c := newCluster()
	c.put("Thing", "n", graph.Record{Name: "owner"})
	c.put("Thing", "n", graph.Record{Name: "z"}, "owner")
	res := c.delete(foreground, Rules{Options: decide.Options{Timeout: decide.Timeout{Base: 10 * time.Minute}}}, "owner")
	expect(t, res, "gone z", "gone owner")
	if res.Took != decide.SettleFor {
		t.Errorf("the deletion takes %s", res.Took)
	}
}
