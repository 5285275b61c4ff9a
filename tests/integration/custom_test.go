package integration

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// testGroup is the API group of every custom resource here.
const testGroup = "test.reap.dev"

var definitions = kind{
	schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	"CustomResourceDefinition",
}

// define makes a custom resource and waits until it can be used. The collector may not know of it yet.
func (s *server) define(t *testing.T, scope, plural, kindName string, change ...func(crd *unstructured.Unstructured)) (kind, *unstructured.Unstructured) {
	t.Helper()
	crd := object(definitions, plural+"."+testGroup)
	crd.Object["spec"] = map[string]any{
		"group": testGroup,
		"scope": scope,
		"names": map[string]any{"plural": plural, "kind": kindName},
		"versions": []any{map[string]any{
			"name": "v1", "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "x-kubernetes-preserve-unknown-fields": true,
			}},
		}},
	}
	for _, c := range change {
		c(crd)
	}
	crd, err := s.dyn.Resource(definitions.gvr).Create(t.Context(), crd, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	k := kind{schema.GroupVersionResource{Group: testGroup, Version: "v1", Resource: plural}, kindName}
	await(t, crd.GetName()+" to be served", func(ctx context.Context) (bool, any) {
		_, err := s.dyn.Resource(k.gvr).List(ctx, metav1.ListOptions{})
		return err == nil, err
	})
	return k, crd
}

// withStatus gives a custom resource a status of its own, and so a generation.
func withStatus(crd *unstructured.Unstructured) {
	for _, v := range crd.Object["spec"].(map[string]any)["versions"].([]any) {
		v.(map[string]any)["subresources"] = map[string]any{"status": map[string]any{}}
	}
}

// undefine takes a custom resource away, with every object of it, when the test ends.
func (s *server) undefine(t *testing.T, crd *unstructured.Unstructured) {
	t.Helper()
	s.delete(t, definitions, crd)
	s.awaitGone(t, definitions, crd)
}

// TestObjectsOfANewCRDCanBeOwners deletes the owner right after it was created: the collector
// may hear of the dependents before it hears of the owner's kind.
func TestObjectsOfANewCRDCanBeOwners(t *testing.T) {
	s := shared(t)
	const n = 1000
	here, there := s.namespace(t, "custom"), s.namespace(t, "custom-bystanders")
	widgets, crd := s.define(t, "Namespaced", "widgets", "Widget")

	o := s.create(t, widgets, here, "owner")
	other := s.create(t, widgets, here, "other-owner")
	s.createMany(t, n, configMaps, here, "dependent", owner(o))
	s.create(t, widgets, there, "owner")
	s.createMany(t, 50, configMaps, there, "dependent")
	s.createMany(t, 50, configMaps, here, "of-another", owner(other))

	before := s.inventory(t)
	s.delete(t, widgets, o)
	s.awaitCount(t, 50, configMaps, here)
	s.barrier(t, configMaps, here)
	gone := append(many(n, configMaps, here, "dependent"), line(widgets.gvr.GroupResource(), here, "owner"))
	before.mustBe(t, s.inventory(t), gone)
	s.undefine(t, crd)
}

func TestCustomResourcesAreCollected(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "custom-dependents")
	gadgets, crd := s.define(t, "Namespaced", "gadgets", "Gadget")

	o := s.create(t, configMaps, ns, "owner")
	s.createMany(t, 200, gadgets, ns, "dependent", owner(o))
	kept := s.create(t, gadgets, ns, "kept")
	// A custom resource between two others.
	middle := s.create(t, gadgets, ns, "middle", owner(o))
	s.create(t, gadgets, ns, "last", owner(middle))
	s.delete(t, configMaps, o)
	s.awaitCount(t, 1, gadgets, ns)
	s.mustExist(t, gadgets, kept)
	s.undefine(t, crd)
}

func TestClusterScopedOwnerHasDependentsInNamespaces(t *testing.T) {
	s := shared(t)
	one, two := s.namespace(t, "cluster-one"), s.namespace(t, "cluster-two")
	planets, crd := s.define(t, "Cluster", "planets", "Planet")

	o, other := s.create(t, planets, "", "owner"), s.create(t, planets, "", "other")
	moon := s.create(t, planets, "", "moon", owner(o))
	for _, ns := range []string{one, two} {
		s.createMany(t, 100, configMaps, ns, "dependent", owner(o))
		s.create(t, configMaps, ns, "of-moon", owner(moon))
		s.create(t, configMaps, ns, "kept", owner(other))
	}
	s.delete(t, planets, o)
	s.awaitCount(t, 1, configMaps, one)
	s.awaitCount(t, 1, configMaps, two)
	s.awaitGone(t, planets, moon)
	s.mustExist(t, planets, other)
	s.undefine(t, crd)
	// The definition took its last object along, and that its dependents.
	s.awaitCount(t, 0, configMaps, one)
	s.awaitCount(t, 0, configMaps, two)
}

// TestCRDIsCreatedAndDeletedRepeatedly, each time with objects and dependents.
func TestCRDIsCreatedAndDeletedRepeatedly(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "comes-and-goes")
	kept := s.create(t, configMaps, ns, "kept")
	for round := range 3 {
		gizmos, crd := s.define(t, "Namespaced", "gizmos", "Gizmo")
		// Deleted while its kind is there.
		o := s.create(t, gizmos, ns, "deleted")
		s.createMany(t, 20, configMaps, ns, fmt.Sprintf("early-%d", round), owner(o))
		s.createMany(t, 20, gizmos, ns, "early", owner(o))
		s.delete(t, gizmos, o)
		s.awaitCount(t, 0, gizmos, ns)
		s.awaitCount(t, 1, configMaps, ns)
		// Deleted with its kind.
		o = s.create(t, gizmos, ns, "swept")
		s.createMany(t, 20, configMaps, ns, fmt.Sprintf("late-%d", round), owner(o))
		s.createMany(t, 20, gizmos, ns, "late", owner(o))
		s.undefine(t, crd)
		s.awaitCount(t, 1, configMaps, ns)
	}
	s.mustExist(t, configMaps, kept)
}
