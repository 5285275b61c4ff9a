package graph

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestCatalogLookups(t *testing.T) {
	second := &Resource{Group: "ex.io", Name: "gadgets", Kind: "Widget", Versions: []string{"v1"}}
	c := NewCatalog([]*Resource{widgets, second, things})
	if c.Resource(second.GroupResource()) != second || c.Resource(schema.GroupResource{Resource: "none"}) != nil {
		t.Error("a resource is not found by its name")
	}
	if r, _, _ := c.resolve("ex.io/v1", "Widget"); r != widgets {
		t.Errorf("the first resource of a kind does not answer for it, but %+v", r)
	}
	if got, want := widgets.Preferred(), (schema.GroupVersionResource{Group: "ex.io", Version: "v2", Resource: "widgets"}); got != want {
		t.Errorf("the preferred version is %v, want %v", got, want)
	}
	if len(c.Resources()) != 3 {
		t.Error("not all resources are listed")
	}
}

func TestCatalogEqualSeesEveryField(t *testing.T) {
	base := NewCatalog([]*Resource{widgets, things})
	copied := *widgets
	if !base.Equal(NewCatalog([]*Resource{&copied, things})) {
		t.Error("a copy differs")
	}
	for name, change := range map[string]func(*Resource){
		"group":      func(r *Resource) { r.Group = "x" },
		"name":       func(r *Resource) { r.Name = "x" },
		"kind":       func(r *Resource) { r.Kind = "x" },
		"versions":   func(r *Resource) { r.Versions = []string{"v1", "v2"} },
		"namespaced": func(r *Resource) { r.Namespaced = false },
		"monitored":  func(r *Resource) { r.Monitored = false },
		"aggregated": func(r *Resource) { r.Aggregated = true },
	} {
		changed := *widgets
		change(&changed)
		if base.Equal(NewCatalog([]*Resource{&changed, things})) {
			t.Errorf("another %s makes no difference", name)
		}
	}
	if base.Equal(NewCatalog([]*Resource{widgets})) {
		t.Error("a missing resource makes no difference")
	}
}
