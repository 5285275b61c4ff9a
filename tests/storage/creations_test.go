package storage

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"

	"github.com/reap-dev/reap/tests/size"
)

const (
	// inNamespace is how many objects a namespace gets, one after the other.
	inNamespace = 40
	// inPage is how many a page takes.
	inPage = 7
	// atOnce is how many namespaces are filled at the same time.
	atOnce = 8
)

// A form reads the objects of a namespace, or the one of a name, and calls see with each until see has seen enough. It returns the
// resourceVersion up to which it has seen all by then, from which a watch shows the others; "" if it has watched already.
type form func(ctx context.Context, s *opened, key string, see func(*example.Pod) (enough bool)) (resourceVersion string, err error)

// forms are the ways in which the API server reads for clients that then watch.
var forms = []struct {
	name   string
	byName bool
	read   form
}{
	{name: "ByName", byName: true, read: func(ctx context.Context, s *opened, key string, see func(*example.Pod) bool) (string, error) {
		return list(ctx, s, key, storage.ListOptions{Predicate: storage.Everything}, see)
	}},
	{name: "ByNamespace", read: func(ctx context.Context, s *opened, key string, see func(*example.Pod) bool) (string, error) {
		return list(ctx, s, key, storage.ListOptions{Predicate: storage.Everything, Recursive: true}, see)
	}},
	{name: "InPages", read: func(ctx context.Context, s *opened, key string, see func(*example.Pod) bool) (string, error) {
		page := storage.Everything
		page.Limit = inPage
		return list(ctx, s, key, storage.ListOptions{Predicate: page, Recursive: true}, see)
	}},
	{name: "InitialEvents", read: func(ctx context.Context, s *opened, key string, see func(*example.Pod) bool) (string, error) {
		everything := storage.Everything
		everything.AllowWatchBookmarks = true
		return "", await(ctx, s, key, storage.ListOptions{Predicate: everything, Recursive: true, SendInitialEvents: ptr.To(true)}, see)
	}},
}

// TestNoCreationIsLost reads in each form while objects are created, and watches from there: each object is in what was read or in the
// watch.
func TestNoCreationIsLost(t *testing.T) {
	created := size.Of(200, 400, 20_000) // on each engine, while one form of reading goes on
	for name, e := range map[string]engine{"SQLite": sqlite, "etcd": etcd} {
		t.Run(name, func(t *testing.T) {
			for _, f := range forms {
				for _, streamed := range []bool{false, true} {
					if f.byName && streamed {
						continue // one object is no list
					}
					t.Run(fmt.Sprintf("%s/streamed=%v", f.name, streamed), func(t *testing.T) {
						gates{features.EtcdRangeStream: streamed, features.WatchList: true}.set(t)
						s := e.plain(t)
						var g errgroup.Group
						g.SetLimit(atOnce)
						for i := range created / inNamespace {
							g.Go(func() error {
								if err := fill(t.Context(), s, fmt.Sprintf("ns-%d", i), f.byName, f.read); err != nil {
									t.Error(err)
								}
								return nil
							})
						}
						_ = g.Wait() // all errors have been reported
						if n := s.reads.GetStreamReadsAndReset(); (n > 0) != streamed {
							t.Errorf("%d reads were streamed", n)
						}
					})
				}
			}
		})
	}
	size.Power(t, fmt.Sprintf("creations=%d", created))
}

// fill creates the objects of a namespace while others read them. It returns an error if a reader does not see each.
func fill(ctx context.Context, s *opened, namespace string, byName bool, read form) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for i := range inNamespace {
		pod := &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("pod-%d", i)}}
		key := resource + namespace + "/" + pod.Name
		switch {
		case byName:
			g.Go(func() error { return readAll(ctx, s, key, 1, read) })
		case i%(inNamespace/4) == 0:
			g.Go(func() error { return readAll(ctx, s, resource+namespace, inNamespace, read) })
		}
		if err := s.Create(ctx, key, pod, nil, 0); err != nil {
			return errors.Join(fmt.Errorf("creating %s: %w", key, err), g.Wait())
		}
	}
	return g.Wait()
}

// readAll returns nil once a reader has seen as many objects below key as there will be.
func readAll(ctx context.Context, s *opened, key string, n int, read form) error {
	seen := map[string]bool{}
	see := func(pod *example.Pod) bool {
		seen[pod.Name] = true
		return len(seen) >= n
	}
	from, err := read(ctx, s, key, see)
	listed := len(seen)
	if err == nil && listed < n {
		err = await(ctx, s, key, storage.ListOptions{ResourceVersion: from, Predicate: storage.Everything, Recursive: n > 1}, see)
	}
	if err != nil {
		return fmt.Errorf("a reader of %s saw %d of %d objects, %d of them in what it read at revision %q: %w", key, len(seen), n, listed, from, err)
	}
	return nil
}

// list reads a list, all of its pages.
func list(ctx context.Context, s *opened, key string, options storage.ListOptions, see func(*example.Pod) bool) (resourceVersion string, err error) {
	for {
		var page example.PodList
		if err := s.GetList(ctx, key, options, &page); err != nil {
			return "", err
		}
		for _, pod := range page.Items {
			see(&pod)
		}
		if page.Continue == "" {
			return page.ResourceVersion, nil
		}
		options.Predicate.Continue = page.Continue
	}
}

// await watches until see has seen enough.
func await(ctx context.Context, s *opened, key string, options storage.ListOptions, see func(*example.Pod) bool) error {
	w, err := s.Watch(ctx, key, options)
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		pod, ok := e.Object.(*example.Pod)
		switch {
		case e.Type == watch.Error:
			return fmt.Errorf("the watch failed: %v", e.Object)
		case e.Type != watch.Added:
		case !ok:
			return fmt.Errorf("the watch showed %T", e.Object)
		case see(pod):
			return nil
		}
	}
	return errors.Join(errors.New("the watch ended"), context.Cause(ctx))
}
