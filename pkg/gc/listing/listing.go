// Package listing builds the collector's graph from one list of a cluster's metadata, for
// clusters in which no collector of reap answers, and for users who may not ask the one that
// runs. It reads with the rights of the config that it is given, and writes nothing.
//
// A list is no watch: the resources are listed one after the other or side by side, so that an
// owner may be created after its resource was listed. Absence from the list therefore proves
// nothing. Every owner that a reference names and that the list does not show is read live, as
// the collector itself does before it deletes.
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
	// pageSize is how many objects one request asks for. An object's metadata takes about one
	// kilobyte, and some servers read all keys for each page, so that small pages are slow.
	pageSize = 2000
	// callTimeout bounds one request. The API server gives up a request after a minute.
	callTimeout = time.Minute
)

var errTimeout = fmt.Errorf("no answer within %s", callTimeout)

// Options are how to list.
type Options struct {
	// Progress is told how far the listing has come, if it is not nil. It is called by one
	// goroutine at a time.
	Progress func(Progress)
}

// Progress is how far a listing has come.
type Progress struct {
	// Resources are to be listed, of which Listed have been.
	Resources, Listed int
	// Objects have been listed; Expected is how many there are as far as it is known.
	Objects, Expected int
	// Owners that the lists do not show are to be read, of which Read have been. They are
	// counted once all resources have been listed.
	Owners, Read int
}

// Gap is something that could not be looked at.
type Gap struct {
	// What is a resource, such as deployments.apps, or an API version.
	What string
	Err  error
}

// Result is a cluster as one listing has shown it.
type Result struct {
	Graph *graph.Graph
	// Now is when everything had been read. Judged at that time, what was read counts as
	// fresh, and whatever waits has settled.
	Now time.Time
	// Finalizers holds, for the objects that have any, the finalizers that are not the
	// collector's.
	Finalizers map[graph.Key][]string
	// Gaps are what could not be looked at: the graph is incomplete if there are any.
	Gaps []Gap
}

// List lists the metadata of everything that the collector would watch. A resource that may
// not be listed, or whose server does not answer for it, is a Gap. An error means that the
// server as a whole stopped answering, or refuses the caller. Cancelling ctx aborts the listing
// with an error.
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

// begin discovers what the server serves. stop ends ctx.
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
	// Deletions that an event showed just now would count as not yet settled; all dependents
	// of these are in the lists.
	l.since = time.Now().Add(-decide.ObserveFor)
	l.result = &Result{Graph: graph.New(), Finalizers: map[graph.Key][]string{}}
	for _, gv := range failed {
		l.result.Gaps = append(l.result.Gaps, Gap{gv.String(), errors.New("the server could not say what it serves")})
	}
	return l, catalog, nil
}

// lister is a listing under way.
type lister struct {
	client   metadata.Interface
	progress func(Progress)
	// stop ends the listing with an error that concerns all of it.
	stop  context.CancelCauseFunc
	since time.Time

	// mu protects what follows, but for the graph, and that progress is told in order.
	mu     sync.Mutex
	result *Result
	told   Progress
}

// tell changes what is known of the progress and tells it.
func (l *lister) tell(change func(*Progress)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.told)
	if l.progress != nil {
		l.progress(l.told)
	}
}

// each calls do with every item, a few at the same time, until ctx ends.
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

// ofAll is true for an error that concerns the server or the caller, and not one resource:
// the server does not answer, or does not know who calls.
func ofAll(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsUnauthorized(err)
}

// why prefers the reason for which ctx ended.
func why(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errTimeout
	}
	return err
}

// gap notes what could not be looked at.
func (l *lister) gap(gr schema.GroupResource, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.result.Gaps = append(l.result.Gaps, Gap{gr.String(), err})
}
