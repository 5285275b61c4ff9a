package integration

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/watch"
)

// hold is a finalizer of somebody else: only the test takes it off.
const hold = testGroup + "/hold"

var (
	background = metav1.DeletePropagationBackground
	foreground = metav1.DeletePropagationForeground
	orphan     = metav1.DeletePropagationOrphan
)

// blocking refers to an owner that must not go first.
func blocking(o *unstructured.Unstructured) metav1.OwnerReference {
	yes, r := true, owner(o)
	r.BlockOwnerDeletion = &yes
	return r
}

// createHeld makes an object that stays, deleted, until it is released.
func (s *server) createHeld(t *testing.T, k kind, ns, name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	t.Helper()
	o := object(k, name, owners...)
	o.SetFinalizers([]string{hold})
	o, err := s.dyn.Resource(k.gvr).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// release takes hold off an object.
func (s *server) release(t *testing.T, k kind, o *unstructured.Unstructured) {
	t.Helper()
	await(t, o.GetName()+" to be released", func(ctx context.Context) (bool, any) { // a conflict is nobody's fault
		now, err := s.dyn.Resource(k.gvr).Namespace(o.GetNamespace()).Get(ctx, o.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		now.SetFinalizers(slices.DeleteFunc(now.GetFinalizers(), func(f string) bool { return f == hold }))
		_, err = s.dyn.Resource(k.gvr).Namespace(o.GetNamespace()).Update(ctx, now, metav1.UpdateOptions{})
		return err == nil, err
	})
}

// deleteAs deletes an object with a policy.
func (s *server) deleteAs(t *testing.T, k kind, o *unstructured.Unstructured, policy metav1.DeletionPropagation) {
	t.Helper()
	s.deleteWith(t, k, o, metav1.DeleteOptions{PropagationPolicy: &policy})
}

func (s *server) deleteWith(t *testing.T, k kind, o *unstructured.Unstructured, opts metav1.DeleteOptions) {
	t.Helper()
	uid := o.GetUID()
	opts.Preconditions = &metav1.Preconditions{UID: &uid}
	if err := s.dyn.Resource(k.gvr).Namespace(o.GetNamespace()).Delete(t.Context(), o.GetName(), opts); err != nil {
		t.Fatalf("deleting %s %s: %v", k.kind, o.GetName(), err)
	}
}

func waits(o metav1.Object) bool {
	return o.GetDeletionTimestamp() != nil && slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents)
}

// mustWait checks that an object is in foreground deletion.
func (s *server) mustWait(t *testing.T, k kind, o *unstructured.Unstructured) {
	t.Helper()
	now, err := s.meta.Resource(k.gvr).Namespace(o.GetNamespace()).Get(t.Context(), o.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Errorf("%s: %v", o.GetName(), err)
	} else if now.UID != o.GetUID() || !waits(now) {
		t.Errorf("%s does not wait: deleted %v, finalizers %v", o.GetName(), now.DeletionTimestamp, now.Finalizers)
	}
}

// awaitDeleting waits until somebody has deleted an object that is held.
func (s *server) awaitDeleting(t *testing.T, k kind, o *unstructured.Unstructured) {
	t.Helper()
	await(t, o.GetName()+" to be deleted", func(ctx context.Context) (bool, any) {
		now, err := s.meta.Resource(k.gvr).Namespace(o.GetNamespace()).Get(ctx, o.GetName(), metav1.GetOptions{})
		return err == nil && now.DeletionTimestamp != nil, err
	})
}

// foregroundBarrier returns once the collector has ended foreground deletions that began after the
// call: by then it would have ended every earlier one that it does not hold back.
func (s *server) foregroundBarrier(t *testing.T, k kind, ns string) {
	t.Helper()
	for range 2 {
		o := s.create(t, k, ns, "foreground-barrier-"+rand.String(8))
		s.create(t, k, ns, o.GetName()+"-dependent", blocking(o))
		s.deleteAs(t, k, o, foreground)
		s.awaitGone(t, k, o)
	}
	s.barrier(t, k, ns)
}

// mustBeFreedOf checks that an object has lost these references and nothing else.
func (s *server) mustBeFreedOf(t *testing.T, k kind, before *unstructured.Unstructured, owners ...types.UID) {
	t.Helper()
	after, err := s.dyn.Resource(k.gvr).Namespace(before.GetNamespace()).Get(t.Context(), before.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Errorf("%s: %v", before.GetName(), err)
		return
	}
	want := before.DeepCopy()
	want.SetOwnerReferences(slices.DeleteFunc(want.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return slices.Contains(owners, r.UID) }))
	for _, o := range []*unstructured.Unstructured{want, after} {
		o.SetResourceVersion("")
		o.SetManagedFields(nil)
		if len(o.GetOwnerReferences()) == 0 {
			unstructured.RemoveNestedField(o.Object, "metadata", "ownerReferences")
		}
	}
	if got, want := asJSON(t, after.Object), asJSON(t, want.Object); got != want {
		t.Errorf("%s:\n got %s\nwant %s", before.GetName(), got, want)
	}
}

// touch changes a label, so that the collector looks at the object again.
func (s *server) touch(t *testing.T, k kind, o *unstructured.Unstructured) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{"touched": rand.String(8)}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.dyn.Resource(k.gvr).Namespace(o.GetNamespace()).Patch(t.Context(), o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// recording is what a watch has shown of a resource, in the store's order.
type recording struct {
	mu     sync.Mutex
	events []watch.Event
	err    any
}

// version returns the store's present version.
func (s *server) version(t *testing.T, k kind) string {
	t.Helper()
	list, err := s.meta.Resource(k.gvr).List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	return list.ResourceVersion
}

// record watches a resource from now on, in all namespaces if ns is "".
func (s *server) record(t *testing.T, k kind, ns string) *recording {
	t.Helper()
	return s.recordFrom(t, k, ns, s.version(t, k))
}

func (s *server) recordFrom(t *testing.T, k kind, ns, version string) *recording {
	t.Helper()
	w, err := s.meta.Resource(k.gvr).Namespace(ns).Watch(t.Context(), metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	r := &recording{}
	var done sync.WaitGroup
	done.Go(func() {
		for e := range w.ResultChan() {
			r.mu.Lock()
			if e.Type == watch.Error {
				r.err = e.Object
			} else {
				r.events = append(r.events, e)
			}
			r.mu.Unlock()
		}
	})
	t.Cleanup(func() { w.Stop(); done.Wait() })
	return r
}

// awaitEnd waits until the recording has the end of an object, and returns its events up to there.
func (r *recording) awaitEnd(t *testing.T, o *unstructured.Unstructured) (events []watch.Event) {
	t.Helper()
	await(t, "a watch to show the end of "+o.GetName(), func(context.Context) (bool, any) {
		r.mu.Lock()
		defer r.mu.Unlock()
		at := slices.IndexFunc(r.events, func(e watch.Event) bool {
			return e.Type == watch.Deleted && e.Object.(metav1.Object).GetUID() == o.GetUID()
		})
		if at < 0 {
			return false, r.err
		}
		events = slices.Clone(r.events[:at+1])
		return true, nil
	})
	return events
}

// ends returns the UIDs of what was deleted, in order.
func ends(events []watch.Event) (uids []types.UID) {
	for _, e := range events {
		if e.Type == watch.Deleted {
			uids = append(uids, e.Object.(metav1.Object).GetUID())
		}
	}
	return uids
}

// mustEndBefore checks that first is among the ends, and before second.
func mustEndBefore(t *testing.T, ends []types.UID, first, second *unstructured.Unstructured) {
	t.Helper()
	a, b := slices.Index(ends, first.GetUID()), slices.Index(ends, second.GetUID())
	if a < 0 || b < 0 || a > b {
		t.Errorf("%s ended as number %d, %s as number %d", first.GetName(), a, second.GetName(), b)
	}
}
