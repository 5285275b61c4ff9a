// Package listing builds the collector's graph from one list of a cluster's metadata, for
// clusters without a collector of reap, and for users who may not ask the running one. It
// reads with the rights of the given config, and writes nothing.
//
// Resources are listed at different times, so an owner may be created after its resource was
// listed. Absence from the list therefore proves nothing. Every owner that a reference names
// and that is not in the list is read live, as by the collector before it deletes.
package listing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/bound"
	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/observe"
)

const (
	// sideBySide is how many resources are listed, or owners read, at the same time.
	sideBySide = 8
	// pageSize is the number of objects per page. An object's metadata takes about one
	// kilobyte, and some servers read all keys for each page, so small pages are slow.
	pageSize = 2000
	// callTimeout bounds one request. The API server aborts requests after a minute.
	callTimeout = time.Minute
)

var errTimeout = fmt.Errorf("no answer within %s", callTimeout)

// Options configures List.
type Options struct {
	// Progress is called when the progress changes; may be nil. Calls do not overlap.
	Progress func(Progress)
}

// Progress is the progress of a listing.
type Progress struct {
	// Resources is the number of resources to list, Listed how many have been listed.
	Resources, Listed int
	// Objects is the number of listed objects, Expected the known number of objects in total.
	Objects, Expected int
	// Owners is the number of owners to read because the lists do not contain them, Read how
	// many have been read. Owners is 0 until all resources have been listed.
	Owners, Read int
}

// Gap is a resource or an API version that could not be listed.
type Gap struct {
	// What is a resource, such as deployments.apps, or an API version.
	What string
	Err  error
}

// Result is the state of a cluster according to one listing.
type Result struct {
	Graph *graph.Graph
	// Now is when the listing was complete. References must be judged at this time: then live
	// reads count as fresh, and waiting objects as settled.
	Now time.Time
	// Finalizers holds the finalizers of objects, without those of the collector.
	Finalizers map[graph.Key][]string
	// Gaps lists what could not be listed. If there are any, the graph is incomplete.
	Gaps []Gap
}

// List lists the metadata of all resources that the collector would watch. If one resource
// cannot be listed, it becomes a Gap. An error means that the server stopped answering
// altogether, or does not authenticate the caller. Cancelling ctx aborts the listing with an
// error.
func List(ctx context.Context, config *rest.Config, o Options) (*Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l, catalog, err := begin(ctx, config, o, cancel)
	if err != nil {
		return nil, err
	}
	l.result.Graph.SetCatalog(catalog, l.since)
	var resources []*graph.Resource
	for _, r := range catalog.Resources() {
		if r.Monitored {
			l.result.Graph.AddResource(r.GroupResource(), r.GroupKind(), l.since)
			resources = append(resources, r)
		}
	}
	l.told.Resources = len(resources)
	each(ctx, resources, l.list)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := l.verify(ctx); err != nil {
		return nil, err
	}
	return l.result, nil
}

// begin discovers the resources that the server serves. stop cancels ctx.
func begin(ctx context.Context, config *rest.Config, o Options, stop context.CancelCauseFunc) (*lister, *graph.Catalog, error) {
	config = bound.All(config, func(request context.Context) (context.Context, context.CancelFunc, error) {
		request, release := context.WithTimeoutCause(request, callTimeout, errTimeout)
		stop := context.AfterFunc(ctx, release) // discovery takes no context
		return request, func() { stop(); release() }, nil
	})
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	catalog, failed, err := observe.Discover(ctx, d, nil)
	if err != nil {
		return nil, nil, why(ctx, err)
	}
	l := &lister{client: client, progress: o.Progress, stop: stop}
	// Pretend that all events came earlier: recent deletions would count as not yet settled,
	// but the lists already contain all dependents.
	l.since = time.Now().Add(-decide.ObserveFor)
	l.result = &Result{Graph: graph.New(), Finalizers: map[graph.Key][]string{}}
	for _, gv := range failed {
		l.result.Gaps = append(l.result.Gaps, Gap{gv.String(), errors.New("the server could not list its resources")})
	}
	return l, catalog, nil
}

// lister is a running listing.
type lister struct {
	client   metadata.Interface
	progress func(Progress)
	// stop aborts the whole listing with an error.
	stop  context.CancelCauseFunc
	since time.Time

	// mu protects result, except its graph, and told, and keeps calls of progress in order.
	mu     sync.Mutex
	result *Result
	told   Progress
}

// tell changes the progress and passes it on.
func (l *lister) tell(change func(*Progress)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.told)
	if l.progress != nil {
		l.progress(l.told)
	}
}

// each calls do with every item, sideBySide at the same time, until ctx is cancelled.
func each[T any](ctx context.Context, items []T, do func(context.Context, T)) {
	next := make(chan T)
	var workers sync.WaitGroup
	for range min(sideBySide, len(items)) {
		workers.Go(func() {
			for item := range next {
				do(ctx, item)
			}
		})
	}
	for _, item := range items {
		select {
		case next <- item:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	workers.Wait()
}

// ofAll reports whether an error concerns all resources: the server does not answer, or
// does not authenticate the caller.
func ofAll(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsUnauthorized(err)
}

// why returns the cause of ctx if it has been cancelled, and err otherwise.
func why(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errTimeout
	}
	return err
}

// gap records a resource that could not be listed.
func (l *lister) gap(gr schema.GroupResource, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.result.Gaps = append(l.result.Gaps, Gap{gr.String(), err})
}
