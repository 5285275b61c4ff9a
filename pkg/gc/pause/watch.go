package pause

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/reap-dev/reap/pkg/gc/act"
)

// retries are the delays between one try to follow the ConfigMap and the next.
var retries = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Cap: 30 * time.Second, Steps: 12}

const (
	// worked is how long a try must last to reset the delays.
	worked = time.Minute
	// callTimeout bounds one read or list.
	callTimeout = 30 * time.Second
	// watchFor is the shortest time that a watch lasts; the longest is twice as long. After
	// each watch the ConfigMap is read again, so that a lost event has no effect for longer.
	watchFor = 5 * time.Minute
)

// Watch calls saw with the state as soon as that is known and at every change, until
// ctx ends, one call at a time. failed is called when the state cannot be read or
// understood; it is read again, with backoff.
//
// Only a read ends a pause, or says that there is none. A list or an event that does not
// show a pause, or that the ConfigMap has gone, is a reason to read it: it may be wrong,
// or older than what is known. One that shows a pause begins it.
func Watch(ctx context.Context, client typedcorev1.ConfigMapsGetter, saw func(State), failed func(error)) {
	w := &watcher{maps: client.ConfigMaps(Namespace), saw: saw, failed: failed}
	delay := retries
	for ctx.Err() == nil {
		began := time.Now()
		if err := w.follow(ctx); err != nil && ctx.Err() == nil {
			w.failing = true
			failed(err)
		}
		if time.Since(began) >= worked {
			delay = retries
		}
		select {
		case <-time.After(delay.Step()):
		case <-ctx.Done():
		}
	}
}

// watcher follows the ConfigMap. One goroutine uses it.
type watcher struct {
	maps   typedcorev1.ConfigMapInterface
	saw    func(State)
	failed func(error)

	known   bool              // saw has been called
	data    map[string]string // of the ConfigMap, as saw was last told
	paused  bool              // the state in data
	failing bool              // failed has been called since saw was
}

// follow reads the ConfigMap and then watches it, until the watch or ctx ends.
func (w *watcher) follow(ctx context.Context) error {
	if err := w.read(ctx); err != nil {
		return err
	}
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, Name).String()
	listed, err := w.list(ctx, only)
	if err != nil {
		return err
	}
	var found *corev1.ConfigMap
	if len(listed.Items) > 0 {
		found = &listed.Items[0]
	}
	// A read that this leads to is newer than the list: the watch shows what follows.
	if err := w.see(ctx, found); err != nil {
		return err
	}
	seconds := int64(wait.Jitter(watchFor, 1).Seconds())
	watching, err := w.maps.Watch(ctx, metav1.ListOptions{FieldSelector: only, ResourceVersion: listed.ResourceVersion, TimeoutSeconds: &seconds})
	if err != nil {
		return watchError(err)
	}
	defer watching.Stop()
	if w.failing {
		w.tell(w.data) // it can be followed again
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-watching.ResultChan():
			if !ok {
				return nil
			}
			if e.Type == watch.Error {
				return watchError(apierrors.FromObject(e.Object))
			}
			if err := w.take(ctx, e); err != nil {
				return err
			}
		}
	}
}

// take is given an event.
func (w *watcher) take(ctx context.Context, e watch.Event) error {
	m, _ := e.Object.(*corev1.ConfigMap)
	switch e.Type {
	case watch.Added, watch.Modified:
		return w.see(ctx, m)
	case watch.Deleted:
		return w.see(ctx, nil)
	}
	return nil
}

// watchError is nil for a watch that has become too old: the ConfigMap is read again then,
// and nothing is amiss.
func watchError(err error) error {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return nil
	}
	return fmt.Errorf("watching ConfigMap %s/%s: %w", Namespace, Name, err)
}

// see is given the ConfigMap as a list or an event shows it; nil if that shows none.
func (w *watcher) see(ctx context.Context, m *corev1.ConfigMap) error {
	if m != nil {
		if s, _ := stateOf(m.Data); s.Paused {
			w.change(m.Data)
			return nil
		}
	}
	if w.paused {
		return w.read(ctx)
	}
	return nil
}

// read reads the ConfigMap from a quorum of the store.
func (w *watcher) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	m, err := w.maps.Get(ctx, Name, metav1.GetOptions{})
	switch {
	case act.IsNotFound(err, corev1.Resource("configmaps"), Name):
		w.change(nil)
	case err != nil:
		return fmt.Errorf("reading ConfigMap %s/%s: %w", Namespace, Name, err)
	default:
		w.change(m.Data)
	}
	return nil
}

func (w *watcher) list(ctx context.Context, only string) (*corev1.ConfigMapList, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	l, err := w.maps.List(ctx, metav1.ListOptions{FieldSelector: only})
	if err != nil {
		return nil, fmt.Errorf("listing ConfigMap %s/%s: %w", Namespace, Name, err)
	}
	return l, nil
}

// change passes the state on if it is new or differs from the known one.
func (w *watcher) change(data map[string]string) {
	if !w.known || !maps.Equal(data, w.data) {
		w.tell(data)
	}
}

func (w *watcher) tell(data map[string]string) {
	s, err := stateOf(data)
	if err != nil {
		w.failed(err)
	}
	w.known, w.data, w.paused, w.failing = true, data, s.Paused, false
	w.saw(s)
}
