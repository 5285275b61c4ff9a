package gc

import (
	"sync"
	"time"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// orphanings is how far the orphaning deletions under way have come. It may be used
// concurrently.
type orphanings struct {
	mu  sync.Mutex
	all map[graph.Key]*orphaning
}

type orphaning struct {
	// stuck is since when it has been known to wait for what cannot be read, in time as
	// it elapses; the zero time if it does not.
	stuck time.Time
	// freed holds the dependents that have been freed, at the version that they had
	// before: their events may be on their way.
	freed map[graph.Key]string
}

// of returns what is known of an owner's orphaning. o.mu is held.
func (o *orphanings) of(k graph.Key) *orphaning {
	p := o.all[k]
	if p == nil {
		p = &orphaning{freed: map[graph.Key]string{}}
		if o.all == nil {
			o.all = map[graph.Key]*orphaning{}
		}
		o.all[k] = p
	}
	return p
}

// stuckSince returns since when an owner has been known to wait for what cannot be
// read; first is true the first time.
func (o *orphanings) stuckSince(k graph.Key, now time.Time) (began time.Time, first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.of(k)
	if p.stuck.IsZero() {
		p.stuck = now
		return now, true
	}
	return p.stuck, false
}

// freed notes that an owner's references have been taken out of a dependent.
func (o *orphanings) freed(k graph.Key, d graph.Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of(k).freed[d.Key] = d.Record.ResourceVersion
}

// unfreed returns those of an owner's dependents that are not known to be free.
func (o *orphanings) unfreed(k graph.Key, dependents []graph.Node) []graph.Node {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.all[k]
	if p == nil {
		return dependents
	}
	var left []graph.Node
	for _, d := range dependents {
		if p.freed[d.Key] != d.Record.ResourceVersion {
			left = append(left, d)
		}
	}
	return left
}

func (o *orphanings) forget(k graph.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, k)
}
