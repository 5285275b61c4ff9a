// Package lint finds ownerReferences, rings and deletions that probably are not what their
// authors meant. It uses the collector's own decisions, so that a finding says what will
// happen to the object.
//
// It does no I/O and reads no clock.
package lint

import (
	"cmp"
	"slices"
	"time"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// StuckAfter is how long after its deletionTimestamp an object that still exists counts as
// stuck. The timestamp of a pod includes its grace period.
const StuckAfter = 5 * time.Minute

// NewUID begins the UID of an object of a manifest, which will get one when it is created.
const NewUID = "new:"

// Code names a kind of finding. Scripts rely on the words.
type Code string

const (
	// Dangling: the reference's owner does not exist.
	Dangling Code = "dangling"
	// WrongUID: the owner does not exist, and another object has its place.
	WrongUID Code = "wrong-uid"
	// WrongNamespace: the owner exists in another namespace.
	WrongNamespace Code = "wrong-namespace"
	// ClusterScoped: a cluster-scoped object names an owner of a namespaced kind.
	ClusterScoped Code = "cluster-scoped"
	// UnknownKind: no server serves the owner's kind.
	UnknownKind Code = "unknown-kind"
	// UnknownVersion: the owner's kind is served, in other versions.
	UnknownVersion Code = "unknown-version"
	// Ring: objects own each other, and one of them has another owner too.
	Ring Code = "ring"
	// UnreachableRing: objects own each other, and nothing else owns them.
	UnreachableRing Code = "unreachable-ring"
	// TwoControllers: more than one reference says that its owner is the controller.
	TwoControllers Code = "two-controllers"
	// NeverCollected: nobody notices the owner's end, or the owner waits for something that
	// never goes.
	NeverCollected Code = "never-collected"
	// StuckFinalizer: the object was deleted, and a finalizer that is not the collector's has
	// kept it for StuckAfter.
	StuckFinalizer Code = "stuck-finalizer"
)

// Codes lists every Code, the gravest first.
func Codes() []Code {
	return []Code{
		WrongUID, Dangling, WrongNamespace, ClusterScoped, UnknownKind, UnknownVersion,
		UnreachableRing, Ring, TwoControllers, NeverCollected, StuckFinalizer,
	}
}

// Effect is what will happen, the gravest first.
type Effect uint8

const (
	// Collected: the object will be deleted.
	Collected Effect = iota
	// Stuck: a deletion that somebody asked for will not end by itself.
	Stuck
	// Dropped: the reference will be removed; the object stays for another owner.
	Dropped
	// Kept: nothing happens, also when the owner goes.
	Kept
	// Undecided: another owner has to be read live before anything is decided.
	Undecided
)

func (e Effect) String() string {
	return [...]string{"collected", "stuck", "dropped", "kept", "undecided"}[e]
}

// Finding is something that probably is not what its author meant.
type Finding struct {
	Code   Code
	Effect Effect
	Object graph.Node
	// Reference is the one that the finding is about; nil if it is about the object.
	Reference *graph.Reference
	// Others are the other members of a ring, the object that has a missing owner's place, or
	// the dependents that an owner waits for in vain.
	Others []graph.Node
}

// Input is what is to be judged.
type Input struct {
	Graph *graph.Graph
	// View returns what is known of an object: Graph.View, or more than that.
	View func(graph.Key) (graph.View, bool)
	// Now is the time to judge at.
	Now time.Time
	// BreaksRings is true if the collector breaks rings of foreground deletions.
	BreaksRings bool
	// Only says which objects findings may be about; nil for all.
	Only func(*graph.Record) bool
}

// Result is what was found.
type Result struct {
	// Findings are in order: by what will happen, by code, by object.
	Findings []Finding
	// Unverified counts the references to owners that nothing shows and that nobody has read
	// live: nothing can be said about them.
	Unverified int
	// Judged counts the objects that findings may be about.
	Judged int
}

// Run judges every object. It takes time linear in the graph; the graph may change meanwhile.
func Run(in Input) Result {
	l := linter{Input: in, all: in.Graph.Objects(), catalog: in.Graph.Catalog()}
	if l.Only == nil {
		l.Only = func(*graph.Record) bool { return true }
	}
	owners := map[graph.Key][]edge{}
	judged := 0
	for _, n := range l.all {
		only := l.Only(n.Record)
		if only {
			judged++
			if n.Record.Deleting {
				l.deletion(n)
			}
		}
		if len(n.Record.References) == 0 {
			continue
		}
		v, ok := l.View(n.Key)
		if !ok {
			continue // it has gone meanwhile
		}
		owners[n.Key] = edges(&v)
		// The references of an object that is being deleted decide nothing any more.
		if only && !v.Record.Deleting {
			l.references(graph.Node{Key: n.Key, Record: v.Record}, &v)
		}
	}
	l.rings(owners)
	l.occupants()
	slices.SortFunc(l.found, compare)
	return Result{Findings: l.found, Unverified: l.unverified, Judged: judged}
}

// compare orders findings.
func compare(a, b Finding) int {
	codes := Codes()
	return cmp.Or(
		cmp.Compare(a.Effect, b.Effect),
		cmp.Compare(slices.Index(codes, a.Code), slices.Index(codes, b.Code)),
		CompareObjects(a.Object, b.Object),
		compareReferences(a.Reference, b.Reference),
	)
}

// CompareObjects orders objects by namespace, resource and name.
func CompareObjects(a, b graph.Node) int {
	return cmp.Or(
		cmp.Compare(a.Record.Namespace, b.Record.Namespace),
		cmp.Compare(a.Key.Resource.Group, b.Key.Resource.Group),
		cmp.Compare(a.Key.Resource.Resource, b.Key.Resource.Resource),
		cmp.Compare(a.Record.Name, b.Record.Name),
		cmp.Compare(a.Key.UID, b.Key.UID),
	)
}

func compareReferences(a, b *graph.Reference) int {
	if a == nil || b == nil {
		return 0
	}
	return cmp.Or(cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// linter is a Run under way.
type linter struct {
	Input
	all        []graph.Node
	catalog    *graph.Catalog
	found      []Finding
	unverified int
	// missing are the findings about owners whose place may be taken, by place.
	missing map[graph.Coordinates][]int
}

func (l *linter) add(f Finding) { l.found = append(l.found, f) }

// references judges each reference of an object.
func (l *linter) references(n graph.Node, v *graph.View) {
	d := decide.From(l.Graph, v, decide.Options{}, l.Now)
	dropped := make(map[graph.Reference]bool, len(d.Drop)) // there may be thousands
	for _, r := range d.Drop {
		dropped[r] = true
	}
	controllers := 0
	for i := range v.Owners {
		o := &v.Owners[i]
		f := Finding{Object: n, Reference: &o.Reference, Effect: effect(d, dropped[o.Reference])}
		if o.Reference.Controller == graph.True {
			if controllers++; controllers > 1 {
				two := f
				two.Code, two.Effect = TwoControllers, Kept
				l.add(two)
			}
		}
		switch state := decide.Judge(o, n.Record.Namespace, l.Now); {
		case o.Elsewhere && (state == decide.Dangling || state == decide.Unverified):
			f.Code = WrongNamespace
		case state == decide.Dangling:
			f.Code = Dangling
			if l.missing == nil {
				l.missing = map[graph.Coordinates][]int{}
			}
			l.missing[o.At] = append(l.missing[o.At], len(l.found))
		case state == decide.Invalid:
			f.Code = ClusterScoped
		case state == decide.Unknown && o.KindServed:
			f.Code = UnknownVersion
		case state == decide.Unknown:
			f.Code = UnknownKind
		case state == decide.Solid && !o.Resource.Monitored:
			f.Code = NeverCollected
		case state == decide.Unverified && o.Observed == nil:
			l.unverified++
			continue
		default:
			continue
		}
		l.add(f)
	}
}

// effect says what a decision means for one reference, which it drops or not.
func effect(d decide.Decision, dropped bool) Effect {
	switch d.Action {
	case decide.Delete:
		return Collected
	case decide.Verify, decide.Confirm:
		return Undecided
	case decide.Drop:
		if dropped {
			return Dropped
		}
	}
	return Kept
}

// deletion judges an object that somebody has deleted.
func (l *linter) deletion(n graph.Node) {
	if !n.Record.Foreground && !n.Record.Orphan {
		if l.Now.Sub(time.Unix(n.Record.DeletedAt, 0)) > StuckAfter {
			l.add(Finding{Code: StuckFinalizer, Effect: Stuck, Object: n})
		}
		return
	}
	if !n.Record.WaitingForDependents() || n.Record.Orphan {
		return
	}
	var holding []graph.Node
	for _, b := range l.Graph.Blockers(n.Key, blockersJudged) {
		if v, ok := l.View(b.Key); ok {
			d := decide.From(l.Graph, &v, decide.Options{}, l.Now)
			if d.Reason == decide.OwnerUnknown || d.Reason == decide.OwnerInvalid {
				holding = append(holding, b)
			}
		}
	}
	if len(holding) > 0 {
		slices.SortFunc(holding, CompareObjects)
		l.add(Finding{Code: NeverCollected, Effect: Stuck, Object: n, Others: holding})
	}
}

// blockersJudged is how many dependents of one owner are judged to find those for which it
// waits in vain.
const blockersJudged = 1000

// occupants finds out which of the missing owners' places are taken by other objects: the owner
// was made again, as after a restore.
func (l *linter) occupants() {
	if len(l.missing) == 0 {
		return
	}
	for _, n := range l.all {
		r := l.catalog.Resource(n.Key.Resource)
		if r == nil {
			continue
		}
		at := graph.Coordinates{Group: r.Group, Kind: r.Kind, Namespace: n.Record.Namespace, Name: n.Record.Name}
		for _, i := range l.missing[at] {
			l.found[i].Code, l.found[i].Others = WrongUID, []graph.Node{n}
		}
	}
}
