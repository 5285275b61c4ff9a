package gc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/lru"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/pause"
	"github.com/reap-dev/reap/pkg/gc/report"
)

// guard pauses the collector before more than limit deletions within guardWindow rest on lookups alone: on reads that
// found no owner, of owners whose end this process has not seen. After a restore that went wrong each such read is right,
// and so is each deletion; only their number tells.
type guard struct {
	limit int // 0: there is none
	graph *graph.Graph
	gate  *gate
	now   func() time.Time
	log   *logrus.Entry
	tell  *teller
	// byRead holds objects that this process has known and whose end a read alone has shown; the oldest are forgotten.
	byRead *lru.Cache
	// hold wakes run once the guard holds the collector.
	hold chan struct{}

	// mu protects what follows.
	mu   sync.Mutex
	made []lookup // deletions of the last guardWindow that rest on lookups alone, and those under way; oldest first
	next *graph.Node
	// underWay counts those whose outcome nobody knows yet; ended is told when one does.
	underWay int
	ended    *sync.Cond
}

// lookup is a deletion that rests on lookups alone.
type lookup struct {
	at time.Time
	of graph.Node
}

const (
	guardWindow = 10 * time.Minute
	// guardRetry is how long the guard waits before it tries again to write the pause. The collector is held meanwhile.
	guardRetry = 2 * time.Second
	// unseenKept is how many objects whose end nobody saw are remembered.
	unseenKept = 10_000
	// guardedBy is who the pause says has paused.
	guardedBy = "--gc-guard"
)

func newGuard(limit int, g *graph.Graph, gate *gate, tell *teller, now func() time.Time, log *logrus.Entry) *guard {
	guard := &guard{limit: limit, graph: g, gate: gate, tell: tell, now: now, log: log, byRead: lru.New(unseenKept), hold: make(chan struct{}, 1)}
	guard.ended = sync.NewCond(&guard.mu)
	return guard
}

// notSeen notes that a read alone has shown the end of an object. One that was being deleted was seen to be.
func (g *guard) notSeen(rec *graph.Record) {
	if !rec.Deleting {
		g.byRead.Add(rec.UID, nil)
	}
}

// onLookups is true if no owner of an object was seen to end.
func (g *guard) onLookups(v *graph.View) bool {
	return !slices.ContainsFunc(v.Owners, func(o graph.OwnerView) bool { return g.sawEnd(o.Reference.UID, &o) })
}

// sawEnd is true if this process has seen the end of an owner, or at least the owner, whose end its monitor is about to
// show.
func (g *guard) sawEnd(uid types.UID, o *graph.OwnerView) bool {
	if o.Observed != nil || o.Fact.State == graph.Present {
		return true
	}
	// An event may have come since the view was taken.
	if g.graph.Known(uid, o.At).State != graph.Gone {
		return false
	}
	_, alone := g.byRead.Get(uid)
	return !alone
}

// delete makes the call that deletes the object of a view, unless that would be one too many on lookups alone.
func (g *guard) delete(v *graph.View, call func() (act.Outcome, error)) (act.Outcome, error) {
	if !g.onLookups(v) {
		return call()
	}
	rec := v.Record
	// Without references, which may be long.
	l := lookup{g.now(), graph.Node{Key: v.Key, Record: &graph.Record{Namespace: rec.Namespace, Name: rec.Name, UID: rec.UID}}}
	if !g.begin(l) {
		return act.Failed, act.ErrPaused
	}
	outcome, err := call()
	// What was refused deleted nothing; of a call that failed nobody knows.
	g.end(l, err == nil && outcome != act.Done || errors.Is(err, act.ErrPaused))
	if outcome == act.Done {
		countLookup()
	}
	return outcome, err
}

// begin counts a deletion that is about to be made. It returns false, and holds the collector, if that is one too many.
func (g *guard) begin(l lookup) bool {
	if g.limit == 0 {
		return true
	}
	if g.count(l) {
		return true
	}
	if g.gate.hold(pause.State{Paused: true, Since: l.at, By: guardedBy, Reason: g.reason()}) {
		g.mu.Lock()
		g.next = &l.of
		g.mu.Unlock()
		countGuardPause()
		g.tell.warn(pauseResource, pauseRecord, guardPaused, "The collector has paused itself: %s; the next would have been %s/%s",
			g.reason(), l.of.Key.Resource, objectName(l.of.Record))
		select {
		case g.hold <- struct{}{}:
		default:
		}
	}
	return false
}

// count adds a deletion to those of the last guardWindow, if there is room. It waits for those under way, which may make
// some.
func (g *guard) count(l lookup) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.made = slices.DeleteFunc(g.made, func(m lookup) bool { return l.at.Sub(m.at) >= guardWindow })
	for len(g.made) >= g.limit {
		if g.underWay == 0 {
			return false
		}
		g.ended.Wait()
	}
	g.made = append(g.made, l)
	g.underWay++
	return true
}

// end notes that the outcome of a deletion is known. One that was refused does not count.
func (g *guard) end(l lookup, refused bool) {
	if g.limit == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.underWay--
	if i := slices.IndexFunc(g.made, func(m lookup) bool { return m == l }); refused && i >= 0 {
		g.made = slices.Delete(g.made, i, i+1)
	}
	g.ended.Broadcast()
}

// reason says why the collector is paused.
func (g *guard) reason() string {
	return fmt.Sprintf("more than %d deletions within %s would rest on lookups alone: nobody has seen their owners being deleted", g.limit, guardWindow)
}

// resumed forgets what has been counted: somebody has looked at it.
func (g *guard) resumed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.made, g.next = nil, nil
}

// run writes the pause whenever the guard holds the collector, until ctx ends, so that it outlives the process and
// `reap resume` ends it.
func (g *guard) run(ctx context.Context, client typedcorev1.ConfigMapsGetter) {
	for {
		select {
		case <-g.hold:
		case <-ctx.Done():
			return
		}
		told := false
		_ = wait.PollUntilContextCancel(ctx, guardRetry, true, func(ctx context.Context) (bool, error) {
			s, _, err := pause.Begin(ctx, client, guardedBy, g.reason(), g.now())
			if err != nil {
				if !told && ctx.Err() == nil {
					g.log.WithError(err).Warn("cannot record the pause in the ConfigMap; the collector stays paused")
				}
				told = true
				return false, nil
			}
			g.gate.written(s)
			return true, nil
		}) // an error is that of ctx
	}
}

// pauseResource and pauseRecord name the ConfigMap of the pause.
var (
	pauseResource = &graph.Resource{Name: "configmaps", Kind: "ConfigMap", Versions: []string{"v1"}, Namespaced: true}
	pauseRecord   = &graph.Record{Namespace: pause.Namespace, Name: pause.Name}
)

// report says how far the guard is from its limit; nil if there is none.
func (g *guard) report(now time.Time) *report.Guard {
	if g.limit == 0 {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var made []graph.Node
	for _, m := range g.made {
		if now.Sub(m.at) < guardWindow {
			made = append(made, m.of)
		}
	}
	return report.NewGuard(g.limit, guardWindow, made, g.next)
}
