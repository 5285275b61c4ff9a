package pause

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
)

// Watch calls saw with the state as soon as that is known and at every change, until
// ctx ends, one call at a time. failed is called when the state cannot be read or
// understood; it is read again, with backoff.
func Watch(ctx context.Context, client typedcorev1.ConfigMapsGetter, saw func(State), failed func(error)) error {
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, Name).String()
	maps := client.ConfigMaps(Namespace)
	lw := listWatch{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			return maps.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return maps.Watch(ctx, o)
		},
	}}
	var mu sync.Mutex
	told := false
	tell := func(s State) {
		mu.Lock()
		defer mu.Unlock()
		told = true
		saw(s)
	}
	look := func(obj any) {
		m, ok := obj.(*corev1.ConfigMap)
		if !ok {
			return
		}
		s, err := stateOf(m.Data)
		if err != nil {
			failed(err)
		}
		tell(s)
	}
	informer := cache.NewSharedIndexInformer(lw, &corev1.ConfigMap{}, 0, nil)
	if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { failed(err) }); err != nil {
		return err
	}
	seen, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    look,
		UpdateFunc: func(_, now any) { look(now) },
		DeleteFunc: func(any) { tell(State{}) },
	})
	if err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer.RunWithContext(ctx)
	}()
	if cache.WaitForCacheSync(ctx.Done(), seen.HasSynced) {
		mu.Lock()
		if !told {
			saw(State{}) // nobody has ever paused
		}
		mu.Unlock()
	}
	<-done
	return nil
}

// listWatch reads a plain list: a streamed one needs the API server's watch cache,
// which a small server does without.
type listWatch struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is what client-go's reflector asks for.
func (listWatch) IsWatchListSemanticsUnSupported() bool { return true }
