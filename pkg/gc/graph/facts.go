package graph

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Coordinates say where an object is to be found. The version is left out:
// every served version of a kind shows the same object.
type Coordinates struct {
	Group     string
	Kind      string
	Namespace string // empty for a cluster-scoped kind
	Name      string
}

// Fact is what has been proved about a UID at some coordinates.
type Fact struct {
	State FactState
	// Seen is when a live read found the object; zero for the other states.
	Seen time.Time
	// Waiting is true if that read found it in foreground deletion, and Version is the
	// resourceVersion that it had then.
	Waiting bool
	Version string
}

// FactState tells one proof from another.
type FactState uint8

const (
	// Unproved: nothing is known.
	Unproved FactState = iota
	// Gone: a monitor of the resource showed a DELETED event for the UID at these
	// coordinates. Final.
	Gone
	// Absent: a live quorum read of these coordinates answered that resource's
	// NotFound, or another UID. Final.
	Absent
	// Present: a live quorum read found the UID at these coordinates. It grows old.
	Present
)

// Proved is true if the fact proves that the object does not exist.
func (f Fact) Proved() bool { return f.State == Gone || f.State == Absent }

// placedFact is a Fact about the coordinates that it was proved at.
type placedFact struct {
	at Coordinates
	Fact
}

// Learn records what a live read proved about coordinates that references to uid
// declare. It has no effect when nothing names the UID any more. Absence is not
// believed of an object that a monitor shows at that place: the monitor has the
// last word, and a DELETED event will come if it lags.
func (g *Graph) Learn(uid types.UID, at Coordinates, f Fact) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f.Proved() && g.shows(uid, at) {
		return
	}
	if o := g.owners[uid]; o != nil {
		o.learn(at, f)
	}
}

// Known returns what has been proved about a UID at some coordinates.
func (g *Graph) Known(uid types.UID, at Coordinates) Fact {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if o := g.owners[uid]; o != nil {
		return o.known(at)
	}
	return Fact{}
}

// ForgetFacts drops what has been proved about objects of a kind: the server that
// answered for it has begun anew. It returns the objects that name one of them. It takes
// time linear in all UIDs that references name.
func (g *Graph) ForgetFacts(gk schema.GroupKind) []Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	var affected affected
	g.forgetFacts(&affected, func(f *placedFact) bool { return f.at.Group == gk.Group && f.at.Kind == gk.Kind })
	return affected.all(g)
}

// forgetFacts drops facts, and adds the objects that name one of those to affected.
func (g *Graph) forgetFacts(affected *affected, which func(*placedFact) bool) {
	for _, o := range g.owners {
		if o.facts.drop(which) {
			affected.addAll(&o.dependents)
		}
	}
}

// forgetRefuted drops the fact about a place where a monitor now shows an object. The fact
// that the object waits stays if the event shows it waiting too.
func (g *Graph) forgetRefuted(n *node) {
	o := g.owners[n.rec.UID]
	if o == nil || o.facts.len() == 0 {
		return
	}
	at := n.coordinates()
	if known := o.known(at); known.State != Unproved && !(known.Waiting && n.rec.WaitingForDependents()) {
		o.facts.drop(func(f *placedFact) bool { return f.at == at })
	}
}

// known returns the fact about a place.
func (o *ownership) known(at Coordinates) Fact {
	if i := o.facts.find(at); i >= 0 {
		return o.facts.list[i].Fact
	}
	return Fact{}
}

// learn is Learn under the lock.
func (o *ownership) learn(at Coordinates, f Fact) {
	i := o.facts.find(at)
	if i < 0 {
		o.facts.add(placedFact{at, f})
		o.boundFacts()
		return
	}
	// Answers arrive in any order. What has been proved gone does not come back, Gone
	// outlives the kind and Absent does not, and an older sight does not replace a
	// newer one.
	known := o.facts.list[i].Fact
	if known.State == Gone || f.State == Present && (known.Proved() || known.Seen.After(f.Seen)) {
		return
	}
	o.facts.list[i].Fact = f
}

// mostFacts is how much the facts may weigh. One verification of all places that references declare has room twice, so that it
// ends before a fact of its own is forgotten.
func (o *ownership) mostFacts() int { return maxFacts + 2*o.weight }

// boundFacts forgets the oldest facts if there are too many: enough of them that this is seldom to be done.
func (o *ownership) boundFacts() {
	if o.facts.weight > o.mostFacts() {
		o.facts.forget(maxFacts + o.weight)
	}
}
