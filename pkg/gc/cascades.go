package gc

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

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
	// of holds each cascade under its root, and under each member that had dependents when it was deleted. A UID is not enough:
	// a reference from another namespace may name it, and is no part of the cascade.
	of map[report.Object]*cascade
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
	root   report.Object
	policy string // with which the root was deleted, as it last showed
	began  time.Time
	last   time.Time // when the collector last deleted an object of it
	// gone counts the objects of it that are gone, without the root, and going holds those that the collector has deleted and
	// that were still there when they were last looked for.
	gone   int
	going  map[graph.Key]struct{}
	recent [rateOver]struct {
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
	// goingKept bounds cascade.going. Objects beyond it count as gone at once.
	goingKept = 1000
	// climbed is how many owners of owners are looked at for the root.
	climbed = 100
)

// collected notes that the collector has deleted the object in the view, at the time now.
func (c *cascades) collected(g *graph.Graph, v *graph.View, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[report.Object]*cascade{}
	}
	if len(c.of) >= membersKept {
		c.prune(g, now)
	}
	k := c.find(v)
	if k == nil {
		root, policy := rootOf(g, v)
		if root.UID == "" {
			return // its owners are elsewhere: nothing was deleted that it belongs to
		}
		if len(root.Group)+len(root.Resource)+len(root.Namespace)+len(root.Name)+len(root.UID) > longestRoot {
			return
		}
		k = &cascade{root: root, policy: policy, began: now}
		if known := c.of[root]; known != nil {
			k = known
		} else if len(c.of) < membersKept {
			c.of[root] = k
		}
	}
	k.deleted(g, v.Key)
	k.last = now
	if r := &k.recent[now.Unix()%rateOver]; r.second == now.Unix() {
		r.n++
	} else {
		r.second, r.n = now.Unix(), 1
	}
	member := report.ObjectOf(graph.Node{Key: v.Key, Record: v.Record})
	if own := c.of[member]; own != nil && own != k && own.root == member {
		c.join(k, own)
	}
	if v.HasDependents && len(c.of) < membersKept {
		c.of[member] = k
	}
}

// deleted notes that the collector has deleted an object of the cascade. It is gone once the graph does not have it any more: a
// finalizer may hold it.
func (k *cascade) deleted(g *graph.Graph, object graph.Key) {
	if len(k.going) >= goingKept {
		k.look(g)
	}
	if len(k.going) >= goingKept {
		k.gone++
		return
	}
	if k.going == nil {
		k.going = map[graph.Key]struct{}{}
	}
	k.going[object] = struct{}{}
}

// look counts what has gone.
func (k *cascade) look(g *graph.Graph) {
	for o := range k.going {
		if !g.Shows(o) {
			delete(k.going, o)
			k.gone++
		}
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
	k.gone += own.gone
	if k.going == nil {
		k.going = map[graph.Key]struct{}{}
	}
	maps.Copy(k.going, own.going)
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
		if k := c.of[report.OwnerObject(&v.Owners[i])]; k != nil {
			return k
		}
	}
	return nil
}

// rootOf climbs from an object that is collected to the owner that a client has deleted, and returns the policy that it shows;
// no object if there is none: a reference that names the UID of an object elsewhere has no owner that was deleted.
func rootOf(g *graph.Graph, v *graph.View) (root report.Object, policy string) {
	root = ownerObject(v, func(o *graph.OwnerView) bool {
		return o.Observed == nil && !o.Elsewhere || o.Observed != nil && o.Observed.Deleting
	})
	for range climbed {
		above, ok := g.View(graph.Key{Resource: root.GroupResource(), UID: root.UID})
		if !ok {
			break
		}
		if policy = "background"; above.Record.WaitingForDependents() {
			policy = "foreground"
		}
		if len(above.Owners) > climbed {
			break
		}
		next := ownerObject(&above, func(o *graph.OwnerView) bool { return o.Observed != nil && o.Observed.WaitingForDependents() })
		if next.UID == "" || next.UID == v.Key.UID {
			break
		}
		root = next
	}
	return root, policy
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
		if now.Sub(k.last) > endedKept && !g.IsOwner(uid.UID) {
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
	members := map[*cascade][]report.Object{}
	c.mu.Lock()
	c.prune(g, now)
	for member, k := range c.of {
		members[k] = append(members[k], member)
	}
	known := make(map[report.Object]bool, len(c.of))
	for member := range c.of {
		known[member] = true
	}
	under := map[report.Object][]report.Object{}
	for k, of := range members {
		k.look(g)
		policy, gone := k.policy, k.gone
		if root, there := g.View(graph.Key{Resource: k.root.GroupResource(), UID: k.root.UID}); !there {
			gone++
		} else if root.Record.WaitingForDependents() {
			k.policy, policy = "foreground", "foreground"
		}
		list = append(list, report.Cascade{Root: k.root, Policy: policy, Began: k.began.UTC(), Deleted: gone, PerSecond: k.rate(now)})
		under[k.root] = append(of, k.root)
	}
	c.mu.Unlock()
	for _, n := range report.WaitingRoots(g) {
		if root := report.ObjectOf(n); !known[root] {
			list = append(list, report.Cascade{Root: root, Began: time.Unix(n.Record.DeletedAt, 0).UTC()})
			under[root] = []report.Object{root}
		}
	}
	slices.SortFunc(list, func(a, b report.Cascade) int {
		return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(a.Root.UID, b.Root.UID))
	})
	count = len(list)
	list = list[:min(count, cascadesListed)]
	for i := range list {
		list[i].Measure(g, under[list[i].Root], o, now)
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
		return float64(k.gone + len(k.going)) // it has run for less than a second
	}
	return float64(n) / float64(seconds)
}
