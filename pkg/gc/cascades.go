package gc

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/report"
)

// cascades remembers with which object each running cascade began: an owner that was deleted in the background has gone
// by the time its dependents are collected, and these by the time of theirs. It is for reports alone; nothing is decided
// by it. It is bounded: when it is full, the next generation of a cascade is reported as a cascade of its own.
//
// It may be used concurrently.
type cascades struct {
	// mu protects what follows.
	mu sync.Mutex
	// of holds each cascade under its root's UID, and under that of each member that had dependents when it was deleted.
	of map[types.UID]*cascade
	// lately is what was last reported; measuring takes time linear in what is left.
	lately reported
	// pruned is when members without dependents were last looked for.
	pruned time.Time
}

type reported struct {
	mu    sync.Mutex
	list  []report.Cascade
	count int
	at    time.Time
	took  time.Duration
}

type cascade struct {
	root    report.Object
	began   time.Time
	last    time.Time // when the collector last deleted an object of it
	deleted int
	recent  [rateOver]struct {
		second int64
		n      int
	}
}

const (
	// membersKept bounds cascades.of.
	membersKept = 10_000
	// rateOver is over how many seconds, the present one not among them, the rate is taken.
	rateOver = 6
	// endedKept is how long a cascade is reported after its end, so that those who look now and then see it.
	endedKept = 15 * time.Second
	// cascadesListed is how many cascades a report lists.
	cascadesListed = 20
	// measuredEvery is how old a report may be; one that took long is kept for longer, so that those who look take no
	// more than a tenth of a core.
	measuredEvery = 200 * time.Millisecond
	measuredShare = 10
	// longestRoot is how many bytes the names and the UID of a root may have. A reference may hold longer ones; an object
	// cannot have them.
	longestRoot = 1024
	// climbed is how many owners of owners are looked at for the root.
	climbed = 100
)

// collected notes that the collector has deleted the object in the view, at the time now.
func (c *cascades) collected(g *graph.Graph, v *graph.View, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[types.UID]*cascade{}
	}
	if len(c.of) >= membersKept {
		c.prune(g, now)
	}
	k := c.find(v)
	if k == nil {
		root := rootOf(g, v)
		if len(root.Group)+len(root.Resource)+len(root.Namespace)+len(root.Name)+len(root.UID) > longestRoot {
			return
		}
		k = &cascade{root: root, began: now}
		if known := c.of[k.root.UID]; known != nil {
			k = known
		} else if len(c.of) < membersKept {
			c.of[k.root.UID] = k
		}
	}
	k.deleted++
	k.last = now
	if r := &k.recent[now.Unix()%rateOver]; r.second == now.Unix() {
		r.n++
	} else {
		r.second, r.n = now.Unix(), 1
	}
	if own := c.of[v.Key.UID]; own != nil && own != k && own.root.UID == v.Key.UID {
		c.join(k, own)
	}
	if v.HasDependents && len(c.of) < membersKept {
		c.of[v.Key.UID] = k
	}
}

// join counts own, whose root is a member of k, as a part of k: the root's dependents were deleted before it was noted that the root
// was. Its deletion is observed while the worker that has made it still awaits the answer, and other workers go on at once.
func (c *cascades) join(k, own *cascade) {
	for uid, of := range c.of {
		if of == own {
			c.of[uid] = k
		}
	}
	k.deleted += own.deleted
	if own.began.Before(k.began) {
		k.began = own.began
	}
	for i, r := range own.recent {
		if mine := &k.recent[i]; mine.second == r.second {
			mine.n += r.n
		} else if mine.second < r.second {
			*mine = r
		}
	}
}

// find returns the cascade of an object's owners, or nil. An object can name thousands; the first do.
func (c *cascades) find(v *graph.View) *cascade {
	for i := range v.Owners[:min(len(v.Owners), climbed)] {
		if k := c.of[v.Owners[i].Reference.UID]; k != nil {
			return k
		}
	}
	return nil
}

// rootOf climbs from an object that is collected to the owner that somebody else has deleted.
func rootOf(g *graph.Graph, v *graph.View) report.Object {
	root := ownerObject(v, func(o *graph.OwnerView) bool { return o.Observed == nil || o.Observed.Deleting })
	for range climbed {
		above, ok := g.View(graph.Key{Resource: root.GroupResource(), UID: root.UID})
		if !ok || len(above.Owners) > climbed {
			break
		}
		next := ownerObject(&above, func(o *graph.OwnerView) bool { return o.Observed != nil && o.Observed.WaitingForDependents() })
		if next.UID == "" || next.UID == v.Key.UID {
			break
		}
		root = next
	}
	return root
}

// ownerObject returns the first owner that is, or an object without a UID.
func ownerObject(v *graph.View, is func(*graph.OwnerView) bool) report.Object {
	for i := range v.Owners {
		if o := &v.Owners[i]; is(o) {
			return report.OwnerObject(o)
		}
	}
	return report.Object{}
}

// prune forgets members that nothing names any more, at most once a second.
func (c *cascades) prune(g *graph.Graph, now time.Time) {
	if now.Sub(c.pruned) < time.Second {
		return
	}
	c.pruned = now
	for uid, k := range c.of {
		if now.Sub(k.last) > endedKept && !g.IsOwner(uid) {
			delete(c.of, uid)
		}
	}
}

// latest returns the cascades that run or have just ended, the one that began last first, and how many there are.
// Foreground and orphaning deletions of which the collector has deleted nothing yet are among them.
func (c *cascades) latest(g *graph.Graph, o decide.Options, now time.Time) (list []report.Cascade, count int) {
	l := &c.lately
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.IsZero() || now.Sub(l.at) >= max(measuredEvery, measuredShare*l.took) {
		began := time.Now()
		l.list, l.count = c.measure(g, o, now)
		l.at, l.took = now, time.Since(began)
	}
	return l.list, l.count
}

func (c *cascades) measure(g *graph.Graph, o decide.Options, now time.Time) (list []report.Cascade, count int) {
	members := map[*cascade][]types.UID{}
	c.mu.Lock()
	c.prune(g, now)
	for uid, k := range c.of {
		members[k] = append(members[k], uid)
	}
	known := make(map[types.UID]*cascade, len(c.of))
	for uid, k := range c.of {
		known[uid] = k
	}
	for k := range members {
		list = append(list, report.Cascade{Root: k.root, Began: k.began.UTC(), Deleted: k.deleted, PerSecond: k.rate(now)})
	}
	c.mu.Unlock()
	under := map[types.UID][]types.UID{}
	for k, uids := range members {
		under[k.root.UID] = append(uids, k.root.UID)
	}
	for _, n := range report.WaitingRoots(g) {
		if known[n.Key.UID] == nil {
			list = append(list, report.Cascade{Root: report.ObjectOf(n), Began: time.Unix(n.Record.DeletedAt, 0).UTC()})
			under[n.Key.UID] = []types.UID{n.Key.UID}
		}
	}
	slices.SortFunc(list, func(a, b report.Cascade) int {
		return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(a.Root.UID, b.Root.UID))
	})
	count = len(list)
	list = list[:min(count, cascadesListed)]
	for i := range list {
		list[i].Measure(g, under[list[i].Root.UID], o, now)
	}
	return list, count
}

// rate returns how many objects were deleted a second lately.
func (k *cascade) rate(now time.Time) float64 {
	n, from := 0, now.Unix()-rateOver
	for _, r := range k.recent {
		if r.second > from && r.second < now.Unix() {
			n += r.n
		}
	}
	seconds := min(now.Unix()-max(from+1, k.began.Unix()), rateOver-1)
	if seconds <= 0 {
		return float64(k.deleted) // it has run for less than a second
	}
	return float64(n) / float64(seconds)
}
