package integration

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestDependentOfAnOwnerThatNeverExistedIsCollected(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "never-existed")
	s.awaitGone(t, configMaps, s.create(t, configMaps, ns, "dependent", nobody(configMaps)))
	s.awaitGone(t, secrets, s.create(t, secrets, ns, "of-two", nobody(configMaps), nobody(clusterRoles)))
	s.awaitGone(t, clusterRoles, s.create(t, clusterRoles, "", "dependent-of-nobody", nobody(clusterRoles)))
}

// TestSecondOwnerKeepsAndDanglingReferenceGoes has references that differ in every field that one can
// have: those that stay must stay as they are.
func TestSecondOwnerKeepsAndDanglingReferenceGoes(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "second-owner")
	yes, no := true, false
	first, second, third := s.create(t, configMaps, ns, "first"), s.create(t, secrets, ns, "second"), s.create(t, configMaps, ns, "third")
	living := []metav1.OwnerReference{owner(first), owner(second)}
	living[0].Controller, living[0].BlockOwnerDeletion = &yes, &no
	living[1].BlockOwnerDeletion = &yes

	refs := []metav1.OwnerReference{living[0], owner(third), living[1]}
	o := object(configMaps, "dependent", refs...)
	o.SetLabels(map[string]string{"a": "b"})
	o.SetAnnotations(map[string]string{"c": "d"})
	o.SetFinalizers([]string{"test.reap.dev/keep"})
	o.Object["data"] = map[string]any{"k": "v"}
	before, err := s.dyn.Resource(configMaps.gvr).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.delete(t, configMaps, third)
	after := s.awaitOwners(t, configMaps, before, 2)
	if got, want := asJSON(t, after.GetOwnerReferences()), asJSON(t, living); got != want {
		t.Errorf("references:\n got %s\nwant %s", got, want)
	}
	// Nothing else of it has changed.
	want := before.DeepCopy()
	want.SetOwnerReferences(living)
	for _, o := range []*unstructured.Unstructured{want, after} {
		o.SetResourceVersion("")
		o.SetManagedFields(nil)
	}
	if got, want := asJSON(t, after.Object), asJSON(t, want.Object); got != want {
		t.Errorf("object:\n got %s\nwant %s", got, want)
	}

	// One that dangles from the beginning.
	ref := owner(first)
	o = s.create(t, configMaps, ns, "half", nobody(secrets), ref)
	after = s.awaitOwners(t, configMaps, o, 1)
	if got, want := asJSON(t, after.GetOwnerReferences()), asJSON(t, []metav1.OwnerReference{ref}); got != want {
		t.Errorf("references:\n got %s\nwant %s", got, want)
	}
}

// awaitOwners waits until an object has n references, and returns it.
func (s *server) awaitOwners(t *testing.T, k kind, o *unstructured.Unstructured, n int) (now *unstructured.Unstructured) {
	t.Helper()
	await(t, o.GetName()+" to lose references", func(ctx context.Context) (bool, any) {
		var err error
		now, err = s.dyn.Resource(k.gvr).Namespace(o.GetNamespace()).Get(ctx, o.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return len(now.GetOwnerReferences()) == n, now.GetOwnerReferences()
	})
	return now
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestDependentsOfUnresolvableOwnersStay: no server can be asked for their owners.
func TestDependentsOfUnresolvableOwnersStay(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "unproved")
	ref := func(apiVersion, kind string) metav1.OwnerReference {
		r := nobody(configMaps)
		r.APIVersion, r.Kind = apiVersion, kind
		return r
	}
	unserved := map[string][]metav1.OwnerReference{
		"unknown-group":       {ref("example.invalid/v1", "Thing")},
		"unknown-kind":        {ref("v1", "Thing")},
		"unserved-version":    {ref("v9", "ConfigMap")},
		"removed-version":     {ref("apps/v1beta1", "Deployment")},
		"dangling-and-not":    {nobody(configMaps), ref("example.invalid/v1", "Thing")},
		"not-and-dangling":    {ref("v9", "ConfigMap"), nobody(configMaps)},
		"kind-in-lower-case":  {ref("v1", "configmap")},
		"resource-for-a-kind": {ref("v1", "configmaps")},
	}
	var stay []*unstructured.Unstructured
	for name, refs := range unserved {
		stay = append(stay, s.create(t, configMaps, ns, name, refs...))
	}
	// A cluster-scoped object cannot have an owner in a namespace: in which one?
	o := s.create(t, configMaps, ns, "owner")
	invalid := []*unstructured.Unstructured{
		s.create(t, clusterRoles, "", "invalid-"+ns, nobody(configMaps)),
		s.create(t, clusterRoles, "", "invalid-living-"+ns, owner(o)),
	}
	s.delete(t, configMaps, o)
	for range 2 {
		s.barrier(t, configMaps, ns)
		s.barrier(t, clusterRoles, "")
	}
	for _, o := range stay {
		s.mustBeAsMade(t, configMaps, o)
	}
	for _, o := range invalid {
		s.mustBeAsMade(t, clusterRoles, o)
	}
}

func (s *server) mustBeAsMade(t *testing.T, k kind, o *unstructured.Unstructured) {
	t.Helper()
	now, err := s.dyn.Resource(k.gvr).Namespace(o.GetNamespace()).Get(t.Context(), o.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Errorf("%s: %v", o.GetName(), err)
	} else if got, want := asJSON(t, now.Object), asJSON(t, o.Object); got != want {
		t.Errorf("%s:\n got %s\nwant %s", o.GetName(), got, want)
	}
}

// TestReferenceIsJudgedByItsOwnCoordinates has references with the UID of an object that exists, and
// something else wrong: there is no such owner where they point. One that is right stays.
func TestReferenceIsJudgedByItsOwnCoordinates(t *testing.T) {
	s := shared(t)
	ns, other := s.namespace(t, "coordinates"), s.namespace(t, "coordinates-other")
	for _, order := range []string{"good-first", "bad-first"} {
		t.Run(order, func(t *testing.T) {
			o := s.create(t, configMaps, ns, "owner-"+order)
			renamed, rekinded := owner(o), owner(o)
			renamed.Name = "other-" + order
			rekinded.Kind = "Secret"
			var good, bad []*unstructured.Unstructured
			makeBad := func() {
				bad = append(bad,
					s.create(t, configMaps, ns, "wrong-name-"+order, renamed),
					s.create(t, configMaps, ns, "wrong-kind-"+order, rekinded),
					s.create(t, configMaps, other, "wrong-namespace-"+order, owner(o)))
			}
			if order == "bad-first" {
				makeBad()
			}
			for _, name := range []string{"good-a-", "good-b-", "good-c-"} {
				good = append(good, s.create(t, configMaps, ns, name+order, owner(o)))
			}
			if order == "good-first" {
				makeBad()
			}
			for _, b := range bad {
				s.awaitGone(t, configMaps, b)
			}
			s.barrier(t, configMaps, ns)
			for _, g := range good {
				s.mustBeAsMade(t, configMaps, g)
			}
			s.mustExist(t, configMaps, o)
			// What was wrong with the siblings is not held against the owner's end either.
			s.delete(t, configMaps, o)
			for _, g := range slices.Backward(good) {
				s.awaitGone(t, configMaps, g)
			}
		})
	}
}

// TestOwnerNamedInAnotherServedVersion: every served version shows the same object.
func TestOwnerNamedInAnotherServedVersion(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "versions")
	scalers := kind{schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}, "HorizontalPodAutoscaler"}
	o := object(scalers, "owner")
	o.Object["spec"] = map[string]any{
		"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}, "maxReplicas": int64(3),
	}
	o, err := s.dyn.Resource(scalers.gvr).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	old := owner(o)
	old.APIVersion = "autoscaling/v1"
	both := []*unstructured.Unstructured{
		s.create(t, configMaps, ns, "by-the-old-version", old),
		s.create(t, configMaps, ns, "by-the-preferred-version", owner(o)),
	}
	s.barrier(t, configMaps, ns)
	for _, d := range both {
		s.mustBeAsMade(t, configMaps, d)
	}
	s.delete(t, scalers, o)
	for _, d := range both {
		s.awaitGone(t, configMaps, d)
	}
}

// TestOwnerMadeAgainUnderItsNameIsAnother: the UID counts.
func TestOwnerMadeAgainUnderItsNameIsAnother(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "made-again")
	o := s.create(t, configMaps, ns, "owner")
	old := s.create(t, configMaps, ns, "of-the-first", owner(o))
	s.delete(t, configMaps, o)
	again := s.create(t, configMaps, ns, "owner")
	young := s.create(t, configMaps, ns, "of-the-second", owner(again))
	s.awaitGone(t, configMaps, old)
	s.barrier(t, configMaps, ns)
	s.mustExist(t, configMaps, again)
	s.mustExist(t, configMaps, young)
}
