package report

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// Cascade is a deletion that the collector carries on below a root, or has just finished.
type Cascade struct {
	Root Object `json:"root"`
	// Policy is background, foreground or orphan.
	Policy string    `json:"policy"`
	Began  time.Time `json:"began"`
	// Deleted counts the objects that the collector has deleted for it, and PerSecond over the last seconds.
	Deleted   int     `json:"deleted"`
	PerSecond float64 `json:"perSecond"`
	// Left counts what names a deleted object as its owner, directly or through others; of an orphaning, directly. An
	// object that another owner keeps counts until its reference has been dropped. LeftOrMore is true if there is more.
	Left       int  `json:"left"`
	LeftOrMore bool `json:"leftOrMore,omitempty"`
	// HeldBy are objects left that do not go by themselves, the first of HeldByCount.
	HeldBy      []Holder `json:"heldBy,omitempty"`
	HeldByCount int      `json:"heldByCount,omitempty"`
}

// Ended is true once nothing is left.
func (c *Cascade) Ended() bool { return c.Left == 0 && c.Policy == "background" }

// Holder is an object that others wait for and that does not go by itself.
type Holder struct {
	Object Object `json:"object"`
	// Reason is why it stays, as in Why; Text says it in words.
	Reason string `json:"reason"`
	Text   string `json:"text"`
	// Finalizers are those that it carries, as the command that asked has read them.
	Finalizers []string `json:"finalizers,omitempty"`
	// Holds counts the direct blockers that wait for it, in an explanation of one object.
	Holds int `json:"holds,omitempty"`
}

const (
	// maxCounted is the largest number of objects below a root that are counted.
	maxCounted = 100_000
	// maxJudged is the number of direct dependents, not deleted yet, among which one that stays is searched for.
	maxJudged = 1000
)

// Measure counts what is left below a root and other members of its cascade. It takes time linear in that, and holds no
// lock for longer than one object's dependents take.
func (c *Cascade) Measure(g *graph.Graph, members []types.UID, o decide.Options, now time.Time) {
	c.Policy = "background"
	root, observed := g.View(graph.Key{Resource: c.Root.GroupResource(), UID: c.Root.UID})
	if observed && root.Record.Deleting {
		switch {
		case root.Record.Orphan:
			c.Policy = "orphan"
			c.Left = len(g.Dependents(c.Root.UID))
			return
		case root.Record.Foreground:
			c.Policy = "foreground"
		}
	}
	direct := make(map[types.UID]bool, len(members))
	for _, uid := range members {
		direct[uid] = true
	}
	// A member that is still there counts, once its owner shows it.
	seen := map[types.UID]bool{c.Root.UID: true}
	judged := 0
	for next := slices.Clone(members); len(next) > 0; {
		uid := next[len(next)-1]
		next = next[:len(next)-1]
		for _, d := range g.Dependents(uid) {
			if seen[d.Key.UID] {
				continue
			}
			if c.Left == maxCounted {
				c.LeftOrMore = true
				return
			}
			seen[d.Key.UID] = true
			c.Left++
			next = append(next, d.Key.UID)
			switch {
			case d.Record.Deleting && !d.Record.Foreground && !d.Record.Orphan:
				c.held(Holder{Object: ObjectOf(d), Reason: string(decide.BeingDeleted), Text: sentence(decide.BeingDeleted)})
			case !d.Record.Deleting && direct[uid] && judged < maxJudged:
				judged++
				if h, holds := holder(g, d, o, now); holds {
					c.held(h)
				}
			}
		}
	}
}

func (c *Cascade) held(h Holder) {
	c.HeldByCount++
	c.HeldBy = append(c.HeldBy, h)
	if len(c.HeldBy) > listed {
		sortHolders(c.HeldBy)
		c.HeldBy = c.HeldBy[:listed]
	}
}

func sortHolders(all []Holder) {
	slices.SortFunc(all, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Holds, a.Holds), cmp.Compare(a.Object.String(), b.Object.String()))
	})
}

// holder judges an object that others wait for; holds is true if it does not go by itself.
func holder(g *graph.Graph, n graph.Node, o decide.Options, now time.Time) (h Holder, holds bool) {
	v, ok := g.View(n.Key)
	if !ok {
		return Holder{}, false
	}
	r := decide.Decide(&v, o, now).Reason
	if r == decide.OwnerUnverified {
		r = vetoed(&v, now)
	}
	switch r {
	case decide.BeingDeleted, decide.OwnerUnknown, decide.OwnerInvalid:
		return Holder{Object: ObjectOf(n), Reason: string(r), Text: sentence(r)}, true
	}
	return Holder{Object: ObjectOf(n), Reason: string(r), Text: sentence(r)}, false
}

// vetoed returns the reason for which an object will stay once its owners have been verified: an owner that nobody can judge
// keeps it, unless another owner is known to stay; then the object only loses its reference to an owner that waits.
func vetoed(v *graph.View, now time.Time) decide.Reason {
	r := decide.OwnerUnverified
	for i := range v.Owners {
		switch decide.Judge(&v.Owners[i], v.Record.Namespace, now) {
		case decide.Solid:
			return decide.OwnerUnverified
		case decide.Unknown:
			r = decide.OwnerUnknown
		case decide.Invalid:
			r = decide.OwnerInvalid
		}
	}
	return r
}

// WaitingRoots returns the objects that wait for the collector and that no owner of theirs waits for. Members of a ring
// are not among them.
func WaitingRoots(g *graph.Graph) []graph.Node {
	var roots []graph.Node
	for _, n := range g.Collecting() {
		v, ok := g.View(n.Key)
		if ok && !slices.ContainsFunc(v.Owners, func(o graph.OwnerView) bool {
			return o.Observed != nil && o.Observed.Deleting && (o.Observed.Foreground || o.Observed.Orphan)
		}) {
			roots = append(roots, n)
		}
	}
	return roots
}
