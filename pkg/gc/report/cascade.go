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
	// Policy is background, foreground or orphan: how the root was deleted.
	Policy string    `json:"policy"`
	Began  time.Time `json:"began"`
	// Deleted counts the objects that are gone, the root among them. PerSecond is how many the collector deleted a second lately.
	Deleted   int     `json:"deleted"`
	PerSecond float64 `json:"perSecond"`
	// Left counts the root while it is there, and what names a deleted object as its owner, directly or through others; of an orphaning, directly. An
	// object that another owner keeps counts until its reference has been dropped. LeftOrMore is true if there is more.
	Left       int  `json:"left"`
	LeftOrMore bool `json:"leftOrMore,omitempty"`
	// HeldBy are objects left that do not go by themselves, the first of HeldByCount.
	HeldBy      []Holder `json:"heldBy,omitempty"`
	HeldByCount int      `json:"heldByCount,omitempty"`
}

// Ended is true once nothing is left.
func (c *Cascade) Ended() bool { return c.Left == 0 }

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

// Measure counts what is left of a cascade below its root and other members. It takes time linear in that, and holds no
// lock for longer than one object's dependents take. Policy is kept of a root that does not show it any more.
func (c *Cascade) Measure(g *graph.Graph, members []Object, o decide.Options, now time.Time) {
	c.Policy = cmp.Or(c.Policy, "background")
	root, observed := g.View(graph.Key{Resource: c.Root.GroupResource(), UID: c.Root.UID})
	if observed && root.Record.Deleting {
		c.Left++
		c.Policy = policyOf(root.Record)
		switch c.Policy {
		case "orphan":
			c.Left += len(dependents(g, c.Root))
			return
		case "background":
			c.heldByFinalizer(c.Root, root.Record)
		}
	}
	direct := make(map[types.UID]bool, len(members))
	for _, m := range members {
		direct[m.UID] = true
	}
	// A member that is still there counts, once its owner shows it.
	seen := map[types.UID]bool{c.Root.UID: true}
	judged := 0
	for next := slices.Clone(members); len(next) > 0; {
		owner := next[len(next)-1]
		next = next[:len(next)-1]
		for _, d := range dependents(g, owner) {
			if seen[d.Key.UID] {
				continue
			}
			if c.Left == maxCounted {
				c.LeftOrMore = true
				return
			}
			seen[d.Key.UID] = true
			c.Left++
			next = append(next, ObjectOf(d))
			switch {
			case d.Record.Deleting && !d.Record.Foreground && !d.Record.Orphan:
				c.heldByFinalizer(ObjectOf(d), d.Record)
			case !d.Record.Deleting && direct[owner.UID] && judged < maxJudged:
				judged++
				if h, holds := holder(g, d, o, now); holds {
					c.held(h)
				}
			}
		}
	}
}

// dependents returns the objects that name an owner by its UID and by where it is. Others that name the UID alone, from another
// namespace for one, are not its dependents.
func dependents(g *graph.Graph, owner Object) []graph.Node {
	catalog := g.Catalog()
	resource := catalog.Resource(owner.GroupResource())
	return slices.DeleteFunc(g.Dependents(owner.UID), func(d graph.Node) bool {
		if owner.Namespace != "" && d.Record.Namespace != owner.Namespace {
			return true
		}
		return !slices.ContainsFunc(d.Record.References, func(r graph.Reference) bool {
			return r.UID == owner.UID && r.Name == owner.Name && (resource == nil || catalog.Serving(r.APIVersion, r.Kind) == resource)
		})
	})
}

// heldByFinalizer notes an object that has been deleted and is still there.
func (c *Cascade) heldByFinalizer(o Object, r *graph.Record) {
	c.held(Holder{Object: o, Reason: string(decide.BeingDeleted), Text: sentence(decide.BeingDeleted), Finalizers: r.Finalizers.Names()})
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
