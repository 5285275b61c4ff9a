package reaptest

import (
	"context"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/restmapper"
)

// goneWithin is how long [Server.Gone] waits: far longer than any cascade of a test takes.
const goneWithin = time.Minute

// Gone waits until none of the objects exists any more, and fails the test at once if one is still there after a
// minute, with what `reap why` says about it and about others that are still being deleted, and with the server's log.
// An object is known by its UID, if it has one: another object of the same name is not taken for it.
//
// Objects are those of client-go and of the scheme that [WithScheme] names, unstructured ones, or others that name their
// own apiVersion and kind.
func (s *Server) Gone(t testing.TB, objects ...runtime.Object) {
	t.Helper()
	since := s.process.log.written()
	ctx, cancel := context.WithTimeoutCause(t.Context(), goneWithin, fmt.Errorf("it is still there after %s", goneWithin))
	defer cancel()
	for _, o := range objects {
		w, err := s.find(o)
		if err != nil {
			t.Fatalf("reaptest: waiting for an object to go: %v", err)
		}
		if err := w.await(ctx); err != nil {
			s.explain(t, since)
			s.told.first(t.Name(), w.seen) // by what follows
			s.tell(t)
			t.Fatalf("reaptest: waiting for %s to go: %v\n%s", w.id, err, s.why(context.Background(), w.id))
		}
	}
}

// waited is an object that is waited for.
type waited struct {
	id     key
	uid    types.UID // "" for any
	client metadata.ResourceInterface
	seen   types.UID // of the object that has last been there
}

// find finds out where the server has an object.
func (s *Server) find(o runtime.Object) (*waited, error) {
	object, err := meta.Accessor(o)
	if err != nil {
		return nil, err
	}
	kind := o.GetObjectKind().GroupVersionKind()
	if kind.Empty() { // as typed clients leave it
		kinds, _, err := s.scheme.ObjectKinds(o)
		if err != nil {
			return nil, fmt.Errorf("the kind of a %T is unknown: set it, or give the type's scheme with WithScheme: %w", o, err)
		}
		kind = kinds[0]
	}
	d, err := discovery.NewDiscoveryClientForConfig(s.config)
	if err != nil {
		return nil, err
	}
	// Asked anew each time: a test may have made the kind a moment ago.
	groups, err := restmapper.GetAPIGroupResources(d)
	if err != nil {
		return nil, fmt.Errorf("asking which resources there are: %w", err)
	}
	mapping, err := restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(s.config)
	if err != nil {
		return nil, err
	}
	return &waited{
		id:     key{mapping.Resource.GroupResource(), object.GetNamespace(), object.GetName()},
		uid:    object.GetUID(),
		client: client.Resource(mapping.Resource).Namespace(object.GetNamespace()),
	}, nil
}

// await returns when the object has gone, or with the cause for which ctx has ended.
func (w *waited) await(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		live, err := w.client.Get(ctx, w.id.name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case err != nil:
			return false, err
		}
		w.seen = live.UID
		return w.uid != "" && live.UID != w.uid, nil
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
