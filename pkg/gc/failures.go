package gc

import (
	"slices"
	"sync"
	"time"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/report"
)

// failures remembers why the last attempt with an object failed, until one succeeds or the object has gone. It may be
// used concurrently.
type failures struct {
	mu  sync.Mutex
	all map[graph.Key]failure
}

type failure struct {
	since time.Time
	times int
	err   string
}

const (
	// failuresKept bounds how many objects' failures are remembered; of more nobody reads all.
	failuresKept = 1000
	// errorKept is how many bytes of an error are kept. A webhook writes what it likes.
	errorKept = 1000
)

// failed notes a failure, the times-th in a row.
func (f *failures) failed(k graph.Key, times int, err error, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, known := f.all[k]
	if !known && len(f.all) >= failuresKept {
		return
	}
	if f.all == nil {
		f.all = map[graph.Key]failure{}
	}
	if !known {
		before.since = now
	}
	text := err.Error()
	f.all[k] = failure{before.since, times, text[:min(len(text), errorKept)]}
}

func (f *failures) forget(k graph.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, k)
}

// of returns why an object failed last; "" if it did not.
func (f *failures) of(k graph.Key) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[k].err
}

// list returns what is known of objects that the graph still has, those that have failed for the longest first.
func (f *failures) list(g *graph.Graph) []report.Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []report.Failure
	for k, x := range f.all {
		v, ok := g.View(k)
		if !ok {
			delete(f.all, k)
			continue
		}
		list = append(list, report.Failure{Object: report.ObjectOf(graph.Node{Key: k, Record: v.Record}), Failures: x.times, Since: x.since.UTC(), Error: x.err})
	}
	slices.SortFunc(list, func(a, b report.Failure) int { return a.Since.Compare(b.Since) })
	return list
}
