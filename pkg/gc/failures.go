package gc

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/report"
)

// failures remembers why the last attempt with an object failed, until one succeeds or the object has gone. If there are too
// many, those of the namespace with the most are forgotten first: no tenant hides the failures of others. It may be used
// concurrently.
type failures struct {
	mu  sync.Mutex
	all map[graph.Key]failure
	in  map[string]int // how many of each namespace
}

type failure struct {
	namespace string
	since     time.Time
	times     int
	err       string
}

const (
	// failuresKept bounds how many objects' failures are remembered; of more nobody reads all.
	failuresKept = 1000
	// errorKept is how many bytes of an error are kept. A webhook writes what it likes.
	errorKept = 1000
)

// failed notes a failure of an object in a namespace, the times-th in a row.
func (f *failures) failed(k graph.Key, namespace string, times int, err error, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, known := f.all[k]
	if !known {
		if len(f.all) >= failuresKept && !f.makeRoom(namespace) {
			return
		}
		if f.all == nil {
			f.all, f.in = map[graph.Key]failure{}, map[string]int{}
		}
		before = failure{namespace: namespace, since: now}
		f.in[namespace]++
	}
	text := err.Error()
	before.times, before.err = times, strings.Clone(text[:min(len(text), errorKept)]) // the rest is not kept with it
	f.all[k] = before
}

// makeRoom forgets a failure of the namespace with the most of them. It returns false if the one that needs the room has as many.
func (f *failures) makeRoom(namespace string) bool {
	most, n := "", 0
	for other, count := range f.in {
		if count > n {
			most, n = other, count
		}
	}
	if f.in[namespace] >= n-1 {
		return false
	}
	for k, x := range f.all {
		if x.namespace == most {
			f.drop(k)
			return true
		}
	}
	return false
}

// drop forgets a failure. f.mu is held.
func (f *failures) drop(k graph.Key) {
	x, known := f.all[k]
	if !known {
		return
	}
	delete(f.all, k)
	if f.in[x.namespace]--; f.in[x.namespace] == 0 {
		delete(f.in, x.namespace)
	}
}

func (f *failures) forget(k graph.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(k)
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
			f.drop(k)
			continue
		}
		list = append(list, report.Failure{Object: report.ObjectOf(graph.Node{Key: k, Record: v.Record}), Failures: x.times, Since: x.since.UTC(), Error: x.err})
	}
	slices.SortFunc(list, func(a, b report.Failure) int { return a.Since.Compare(b.Since) })
	return list
}
