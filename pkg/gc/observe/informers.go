package observe

import (
	"context"
	"fmt"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// factory makes the informers that the collector shares: one for each resource
// and version. client-go's metadata informer factory is not used because it never
// forgets a resource, keeps whole metadata and indexes every object by namespace.
type factory struct {
	client metadata.Interface
}

// calls is told how an informer's calls end.
type calls struct {
	// listed is told of every list that is read from a quorum.
	listed func(resourceVersion string)
	// page is told of every page of a list; first and last say which.
	page func(first, last bool)
	// watched is told that a watch has begun; the list that comes before it is whole
	// then.
	watched func()
	// failed is told of every list or watch that was refused. client-go keeps some of
	// them to itself and tries again.
	failed func(context.Context, error)
}

// informer returns a new informer, not started, over the metadata of a resource's
// objects, each cut down to its graph.Record before it is stored. A fresh one's first
// list is read from a quorum; otherwise a list of any age will do for a beginning.
func (f *factory) informer(gvr schema.GroupVersionResource, fresh bool, told calls) (cache.SharedIndexInformer, error) {
	objects := f.client.Resource(gvr)
	lw := listWatch{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if fresh && o.ResourceVersion == "0" {
				o.ResourceVersion = ""
			}
			l, err := objects.List(ctx, o)
			if err != nil {
				told.failed(ctx, err)
				return l, err
			}
			if o.ResourceVersion == "" && o.Continue == "" {
				told.listed(l.ResourceVersion)
			}
			told.page(o.Continue == "", l.Continue == "")
			return l, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := objects.Watch(ctx, o)
			if err != nil {
				told.failed(ctx, err)
			} else if ctx.Err() == nil {
				told.watched()
			}
			return w, err
		},
	}}
	informer := cache.NewSharedIndexInformerWithOptions(lw, &metav1.PartialObjectMetadata{}, cache.SharedIndexInformerOptions{
		ObjectDescription: gvr.String(),
	})
	// Whatever ends a try has been told above; client-go would log it each time.
	if err := informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}); err != nil {
		return nil, fmt.Errorf("setting up the informer of %s: %w", gvr.GroupResource(), err)
	}
	if err := informer.SetTransform(toRecord); err != nil {
		return nil, fmt.Errorf("setting up the informer of %s: %w", gvr.GroupResource(), err)
	}
	return informer, nil
}

// listWatch lists in pages. A streamed list needs the API server's watch cache,
// which a small server does without.
type listWatch struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is what client-go's reflector asks for.
func (listWatch) IsWatchListSemanticsUnSupported() bool { return true }

// toRecord is the informers' transform. It may see its own output again.
func toRecord(obj any) (any, error) {
	switch o := obj.(type) {
	case *graph.Record:
		return o, nil
	case metav1.Object:
		r := graph.RecordOf(o)
		// Few values fill these fields in thousands of objects, and all dependents of an owner name it alike.
		r.Namespace = intern(r.Namespace)
		for i := range r.References {
			ref := &r.References[i]
			ref.APIVersion, ref.Kind, ref.Name, ref.UID = intern(ref.APIVersion), intern(ref.Kind), intern(ref.Name), intern(ref.UID)
		}
		return r, nil
	}
	return nil, fmt.Errorf("an informer showed a %T, which has no metadata", obj)
}

// intern returns an equal string that others share. An object may name thousands of owners, and nothing is kept for those that are forgotten.
func intern[S ~string](s S) S { return unique.Make(s).Value() }
