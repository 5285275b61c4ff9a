// Package plan foretells what a deletion would do.
//
//	graph.Graph ──Take──▶ World ──Delete──▶ Result
//	                       │
//	                       └ decide.From ─▶ a simulated API server ─▶ graph events ─┐
//	                              ▲                                                 │
//	                              └──────────────── the copied graph ◀──────────────┘
//
// It runs the collector's own decisions over a copy of the part of the graph that the
// deletion can reach, and carries them out on a simulated API server. Each change
// there goes into the copied graph as an event, as a monitor would show it, and leads to
// the next decisions. Time is simulated too: it stands still while anything can be done,
// then goes on to the next moment at which something happens, such as a deadline.
//
// Whatever does not follow from the graph and from the rules of the API server is not
// simulated: admission webhooks, controllers that react, the owners of other finalizers,
// whether a claim or a volume is in use, and how long pods take to stop. Controllers of the
// server that take their own finalizer off a deleted object are simulated. Result.Notes names those that concern the deletion.
//
// The package does no I/O and reads no clock. Nothing in it may be used concurrently,
// but different Worlds may.
package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// Rules say how the simulated collector works.
type Rules struct {
	// Options are those that decisions depend on.
	Options decide.Options
	// Kubernetes is true for Kubernetes' own collector. The fields below are ignored then.
	Kubernetes bool
	// Rings is true if rings of objects in foreground deletion are broken.
	Rings bool
	// Holds says why there may be dependents that nobody can list. Orphaning deletions wait
	// until they can be listed, at most for OrphanTimeout; 0 is for ever. Empty if nothing is
	// known to be in the way.
	Holds         string
	OrphanTimeout time.Duration
	// Orphaned is true of owners that were deleted with propagation policy Orphan; nil
	// for none.
	Orphaned func(types.UID) bool
	// Disabled are the controllers of the server that do not run, by their names in --disable.
	// Kubernetes' own collector is part of a program that runs all of them.
	Disabled []string
}

// World is what a deletion can reach, copied from a graph.
type World struct {
	graph   *graph.Excerpt
	targets []graph.Key
	bound   *bound // of the plan that is being made
}

// Take copies what the deletion of some objects can reach. See graph.Graph.Excerpt on what
// that costs the graph.
func Take(g *graph.Graph, targets []graph.Key) *World {
	return &World{graph: g.Excerpt(targets, contents), targets: targets}
}

// Size is how many objects the deletion can reach.
func (w *World) Size() int { return len(w.graph.Reached) }

// The resources whose objects contain others.
var (
	namespaces  = schema.GroupResource{Resource: "namespaces"}
	definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	pods        = schema.GroupResource{Resource: "pods"}
)

// contents is what an object contains: the objects of a namespace or of a
// CustomResourceDefinition go with it.
func contents(n graph.Node) graph.Contents {
	switch n.Key.Resource {
	case namespaces:
		return graph.Contents{Namespace: n.Record.Name}
	case definitions:
		return graph.Contents{Resource: schema.ParseGroupResource(n.Record.Name)}
	}
	return graph.Contents{}
}

// Unseen returns at most most owners that no monitor shows and about which nothing is
// proved, each once. A caller that can read them passes the result to Learn.
func (w *World) Unseen(now time.Time, most int) []graph.OwnerView {
	type place struct {
		uid types.UID
		at  graph.Coordinates
	}
	seen := map[place]bool{}
	var unseen []graph.OwnerView
	for _, k := range w.graph.Reached {
		v, ok := w.graph.View(k)
		if !ok {
			continue
		}
		for i := range v.Owners {
			o := &v.Owners[i]
			p := place{o.Reference.UID, o.At}
			if seen[p] || o.Observed != nil || decide.Judge(o, v.Record.Namespace, now) != decide.Unverified || w.graph.Lists(o.Resource.GroupResource()) {
				continue
			}
			if len(unseen) == most {
				return unseen
			}
			seen[p] = true
			unseen = append(unseen, *o)
		}
	}
	return unseen
}

// Learn tells what a live read has proved about an owner.
func (w *World) Learn(uid types.UID, at graph.Coordinates, f graph.Fact) { w.graph.Learn(uid, at, f) }

// Fate is what becomes of an object.
type Fate string

// The fates of objects.
const (
	// Gone: the object is deleted, and its end comes.
	Gone Fate = "gone"
	// Stuck: the object is deleted and stays, Terminating.
	Stuck Fate = "stuck"
	// Freed: the object stays and loses references.
	Freed Fate = "freed"
	// Unchanged: the object names one that is deleted, and stays as it is.
	Unchanged Fate = "unchanged"
)

// Object is one object that a deletion concerns.
type Object struct {
	Key graph.Key
	// Record is the object before the deletion.
	Record *graph.Record
	Fate   Fate
	// Reason says why it is deleted, or loses references; empty if nothing happens to it.
	Reason Reason
	// Held says what keeps an object that is not gone in the end.
	Held Reason
	// Policy is the propagation policy that it was deleted with; empty if it was being
	// deleted already or is not deleted.
	Policy metav1.DeletionPropagation
	// By is the object because of which it is deleted, or freed, as an index into
	// Result.Objects; -1 if it was asked for or had been deleted before.
	By int
	// At is how long after the beginning its fate was decided: its end, or the last
	// change of it. Step is its place in the order: what goes at a step goes after some
	// object of the step before. Objects of one step go in any order.
	At   time.Duration
	Step int
	// Loses holds the references that are dropped, and Unblocks those that no longer
	// block, since they were part of a ring.
	Loses    []graph.Reference
	Unblocks []graph.Reference
	// Keeps holds the references that are left to an object that stays, with the
	// judgement of each.
	Keeps []Kept
	// Blockers are what a stuck object in foreground deletion waits for, as indexes.
	Blockers []int
	// TimedOut is true if its foreground deletion is given up on.
	TimedOut bool
	// Ring is the number of the first ring that it was part of, from 1; 0 for none.
	Ring int
	// Uncertain is true if its fate depends on what the collector looks at first.
	Uncertain bool
}

// Kept is a reference that an object still has in the end.
type Kept struct {
	Reference graph.Reference
	State     decide.State
}

// Reason says why an object is deleted, or stays.
type Reason string

// The reasons. Those of the collector's decisions are decide's.
const (
	Requested       Reason = "requested"         // the deletion was asked for
	Deleted         Reason = "deleted-before"    // it was being deleted before
	InNamespace     Reason = "namespace"         // its namespace is deleted
	OfDefinition    Reason = "definition"        // its CustomResourceDefinition is deleted
	OtherFinalizer  Reason = "other-finalizer"   // a finalizer that is not the collector's keeps it
	HasContents     Reason = "contents"          // what it contains is not gone
	ControllerOff   Reason = "controller-off"    // the controller that would delete what it contains does not run
	OrphaningWaits  Reason = "orphaning-waits"   // dependents may be where nobody can list them
	OwnerNotVisible Reason = "owner-not-visible" // an owner that nobody could read
	GivenUp         Reason = "given-up"          // Kubernetes' collector looks at it no more until something changes
)

// Event is something that happens to an object.
type Event struct {
	What   What
	Object int // an index into Result.Objects
	At     time.Duration
	// After holds the events that it follows, as indexes into Result.Events.
	After []int
}

// What is a kind of Event.
type What string

// The kinds of events.
const (
	Marked    What = "marked"    // the object has a deletionTimestamp
	Ended     What = "ended"     // it is gone
	Dropped   What = "dropped"   // it has lost references
	Unblocked What = "unblocked" // references of it no longer block
	Released  What = "released"  // a finalizer of the collector has been taken off
)

// Result is what a deletion would do.
type Result struct {
	// Objects are in the order in which their fates come; what stays comes last.
	Objects []Object
	Events  []Event
	// Rings are those that were broken, as indexes into Objects.
	Rings [][]int
	Notes []Note
	// Took is the time until nothing happens any more, of which only the collector's own
	// delays and deadlines are known.
	Took time.Duration
}

// Note names something that cannot be foretold.
type Note struct {
	What NoteKind
	// Count is how many objects it concerns, and First an example, as an index.
	Count int
	First int
}

// NoteKind is a kind of Note.
type NoteKind string

// What cannot be foretold.
const (
	PodGrace         NoteKind = "pod-grace-period" // pods end when they have stopped
	Protected        NoteKind = "protected"        // a finalizer of the server's is taken off once nothing uses the object
	ControllerReacts NoteKind = "controller"       // a controller may create anew what an owner still wants
	ForeignFinalizer NoteKind = "finalizer"        // whoever set it may take it off
	UnseenOwner      NoteKind = "owner-not-visible"
	Timing           NoteKind = "timing" // what comes first decides
)
