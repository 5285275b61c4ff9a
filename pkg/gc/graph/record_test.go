package graph

import (
	"math"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRecordOf(t *testing.T) {
	yes, no := true, false
	when := metav1.NewTime(epoch)
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "a", UID: "u", ResourceVersion: "7", CreationTimestamp: metav1.NewTime(epoch.Add(-time.Hour)), DeletionTimestamp: &when,
		Labels:     map[string]string{"not": "kept"},
		Finalizers: []string{"x/y", metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Thing", Name: "o", UID: "o", Controller: &yes, BlockOwnerDeletion: &no},
			{APIVersion: "ex.io/v1", Kind: "Widget", Name: "w", UID: "w"},
		},
	}}
	want := &Record{
		Namespace: "n", Name: "a", UID: "u", ResourceVersion: "7", Deleting: true, Foreground: true, Orphan: true, OtherFinalizers: true,
		CreatedAt: uint32(epoch.Unix() - 3600), DeletedAt: epoch.Unix(), Finalizers: FinalizersOf([]string{"x/y"}),
		References: []Reference{
			{APIVersion: "v1", Kind: "Thing", Name: "o", UID: "o", Controller: True, BlockOwnerDeletion: False},
			{APIVersion: "ex.io/v1", Kind: "Widget", Name: "w", UID: "w"},
		},
	}
	if got := RecordOf(o); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := RecordOf(&metav1.PartialObjectMetadata{}), (&Record{}); !reflect.DeepEqual(got, want) {
		t.Errorf("of nothing: %+v", got)
	}
	for year, want := range map[int]uint32{1960: 0, 2200: math.MaxUint32} {
		if got := RecordOf(&metav1.ObjectMeta{CreationTimestamp: metav1.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)}).CreatedAt; got != want {
			t.Errorf("created in %d: %d", year, got)
		}
	}
}

// A finalizer that the API server removes by itself is not counted among the others, and the timeout
// annotation counts before the deletion.
func TestRecordOfADefinition(t *testing.T) {
	r := RecordOf(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Finalizers: []string{DefinitionFinalizer, metav1.FinalizerOrphanDependents}, Annotations: map[string]string{SyncTimeoutAnnotation: "3s"},
	}})
	if r.OtherFinalizers || !r.Orphan || r.SyncTimeout != 3*time.Second {
		t.Errorf("%+v", r)
	}
}

func TestReferencesDifferInEveryField(t *testing.T) {
	yes, no := true, false
	base := metav1.OwnerReference{APIVersion: "v1", Kind: "Thing", Name: "o", UID: "o"}
	all := []metav1.OwnerReference{base}
	for _, change := range []func(*metav1.OwnerReference){
		func(r *metav1.OwnerReference) { r.APIVersion = "v2" },
		func(r *metav1.OwnerReference) { r.Kind = "Widget" },
		func(r *metav1.OwnerReference) { r.Name = "p" },
		func(r *metav1.OwnerReference) { r.UID = "p" },
		func(r *metav1.OwnerReference) { r.Controller = &yes },
		func(r *metav1.OwnerReference) { r.Controller = &no },
		func(r *metav1.OwnerReference) { r.BlockOwnerDeletion = &yes },
		func(r *metav1.OwnerReference) { r.BlockOwnerDeletion = &no },
	} {
		r := base
		change(&r)
		all = append(all, r)
	}
	seen := map[Reference]int{}
	for i, r := range all {
		if j, taken := seen[ReferenceOf(r)]; taken {
			t.Errorf("%+v equals %+v", all[j], r)
		}
		seen[ReferenceOf(r)] = i
	}
}

func TestWaitingForDependents(t *testing.T) {
	for _, c := range []struct {
		rec  Record
		want bool
	}{
		{Record{}, false},
		{Record{Deleting: true}, false},
		{Record{Foreground: true}, false}, // the finalizer alone deletes nothing
		{Record{Deleting: true, Orphan: true}, false},
		{Record{Deleting: true, Foreground: true}, true},
	} {
		if got := c.rec.WaitingForDependents(); got != c.want {
			t.Errorf("%+v: %v", c.rec, got)
		}
	}
}

func TestElsewhere(t *testing.T) {
	for _, c := range []struct {
		object, owner string
		want          bool
	}{{"n", "n", false}, {"n", "m", true}, {"n", "", false}, {"", "n", false}, {"", "", false}} {
		if got := (&Record{Namespace: c.object}).Elsewhere(c.owner); got != c.want {
			t.Errorf("an object in %q and an owner in %q: %t", c.object, c.owner, got)
		}
	}
}
