package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/pause"
	"github.com/reap-dev/reap/pkg/gc/plan"
)

// PlanVersion is the version of Plan's JSON fields. A field may be added without a new
// version.
const PlanVersion = 1

// PlanLimit is how many objects of a plan are listed unless asked otherwise.
const PlanLimit = 100

// PlanRequest describes the deletion that is to be foretold.
type PlanRequest struct {
	Targets []graph.Key
	// Policy is the propagation policy, Background, Foreground or Orphan; empty for each
	// resource's own default.
	Policy string
	// Limit is how many objects are listed at the most; 0 is all.
	Limit int
}

// Plan is what a deletion would do.
type Plan struct {
	Version int       `json:"version"`
	Basis   Basis     `json:"basis"`
	Now     time.Time `json:"now"`
	// Policy is the propagation policy that was asked for; empty for each resource's own
	// default.
	Policy string `json:"policy,omitempty"`
	// Totals counts all objects by fate, and Counts those of each resource and namespace.
	Totals PlanCount   `json:"totals"`
	Counts []PlanCount `json:"counts,omitempty"`
	// TookSeconds is the time until nothing happens any more, of which only the collector's
	// own delays and deadlines are known.
	TookSeconds float64 `json:"tookSeconds"`
	// Objects lists objects, those that were asked for and those that stay first of all, the
	// others in the order in which they go; Omitted counts those left out.
	Objects []PlannedObject `json:"objects,omitempty"`
	Omitted int             `json:"omitted,omitempty"`
	// Rings are the rings of owners that would be broken.
	Rings []Objects `json:"rings,omitempty"`
	// NotForetold names what the plan cannot know.
	NotForetold []PlanNote   `json:"notForetold,omitempty"`
	Pause       *pause.State `json:"pause,omitempty"`
}

// PlanCount counts objects by fate.
type PlanCount struct {
	Group     string `json:"group,omitempty"`
	Resource  string `json:"resource,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// Gone counts the objects that go, Stuck those that are deleted and stay Terminating,
	// Freed those that stay and lose references, and Unchanged those that name an object
	// that is deleted and stay as they are.
	Gone      int `json:"gone,omitempty"`
	Stuck     int `json:"stuck,omitempty"`
	Freed     int `json:"freed,omitempty"`
	Unchanged int `json:"unchanged,omitempty"`
}

func (c *PlanCount) add(f plan.Fate) {
	switch f {
	case plan.Gone:
		c.Gone++
	case plan.Stuck:
		c.Stuck++
	case plan.Freed:
		c.Freed++
	case plan.Unchanged:
		c.Unchanged++
	}
}

// PlannedObject says what happens to one object.
type PlannedObject struct {
	Object Object `json:"object"`
	// Fate is gone, stuck, freed or unchanged; Text says in words what keeps the object, or
	// what is special about its end.
	Fate string `json:"fate"`
	Text string `json:"text,omitempty"`
	// Reason says why it is deleted or loses references, and Held why it is not gone, as a
	// word for machines.
	Reason string `json:"reason,omitempty"`
	Held   string `json:"held,omitempty"`
	// Policy is the propagation policy that it is deleted with.
	Policy string `json:"policy,omitempty"`
	// Step is the object's place in the order in which objects go: what goes at a step
	// follows upon the end of something at the step before. Objects of one step go in any
	// order. 0 if it does not go.
	Step         int     `json:"step,omitempty"`
	AfterSeconds float64 `json:"afterSeconds,omitempty"`
	// BecauseOf is the object that it follows: its owner, namespace or definition.
	BecauseOf types.UID `json:"becauseOf,omitempty"`
	// Requested is true of the objects that the deletion names.
	Requested bool `json:"requested,omitempty"`
	// Loses names the owners to which it loses its references, and KeptBy the owners that it
	// goes on naming, with the judgement of each.
	Loses  []Owner `json:"loses,omitempty"`
	KeptBy []Owner `json:"keptBy,omitempty"`
	// BlockedBy is what it waits for, if it is in foreground deletion and stuck.
	BlockedBy Objects `json:"blockedBy,omitzero"`
	// TimedOut is true if it goes since its foreground deletion times out. Where an owner and a dependent of it have their
	// deadlines at the same moment, either may go first.
	TimedOut bool `json:"timedOut,omitempty"`
	// Ring is the number of the ring that it is part of, from 1.
	Ring int `json:"ring,omitempty"`
	// Uncertain is true if its fate depends on what the collector looks at first.
	Uncertain bool `json:"uncertain,omitempty"`
	Live
}

// PlanNote names something that cannot be foretold.
type PlanNote struct {
	What    string `json:"what"`
	Text    string `json:"text"`
	Count   int    `json:"count"`
	Example Object `json:"example"`
}

// PlanOf makes the report of a plan that was made at the time now.
func PlanOf(res *plan.Result, q PlanRequest, now time.Time) Plan {
	p := Plan{Version: PlanVersion, Now: now.UTC().Round(0), Policy: q.Policy, TookSeconds: res.Took.Seconds()}
	requested := make(map[graph.Key]bool, len(q.Targets))
	for _, k := range q.Targets {
		requested[k] = true
	}
	counts := map[PlanCount]*PlanCount{}
	for i := range res.Objects {
		o := &res.Objects[i]
		place := PlanCount{Group: o.Key.Resource.Group, Resource: o.Key.Resource.Resource, Namespace: o.Record.Namespace}
		c := counts[place]
		if c == nil {
			c = &PlanCount{Group: place.Group, Resource: place.Resource, Namespace: place.Namespace}
			counts[place] = c
		}
		c.add(o.Fate)
		p.Totals.add(o.Fate)
	}
	for _, c := range counts {
		p.Counts = append(p.Counts, *c)
	}
	slices.SortFunc(p.Counts, func(a, b PlanCount) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
	for _, i := range planListed(res, requested, q.Limit) {
		p.Objects = append(p.Objects, planned(res, &res.Objects[i], requested))
	}
	p.Omitted = len(res.Objects) - len(p.Objects)
	for _, ring := range res.Rings[:min(len(res.Rings), listed)] {
		p.Rings = append(p.Rings, indexed(res, ring))
	}
	for _, n := range res.Notes {
		o := &res.Objects[n.First]
		p.NotForetold = append(p.NotForetold, PlanNote{What: string(n.What), Text: noteText(n.What), Count: n.Count, Example: objectOf(o.Key, o.Record)})
	}
	return p
}

// planListed chooses the objects to list, at most so many: those that were asked for,
// then those that stay, then the others. It returns them in the order of the result.
func planListed(res *plan.Result, requested map[graph.Key]bool, limit int) (chosen []int) {
	if limit == 0 || limit >= len(res.Objects) {
		for i := range res.Objects {
			chosen = append(chosen, i)
		}
		return chosen
	}
	left := make([][]int, 3)
	for i := range res.Objects {
		o := &res.Objects[i]
		class := 2
		switch {
		case requested[o.Key]:
			class = 0
		case o.Fate != plan.Gone:
			class = 1
		}
		left[class] = append(left[class], i)
	}
	for class, all := range left {
		most := limit - len(chosen)
		if class == 1 && len(left[2]) > 0 {
			most = max(most/2, most-len(left[2])) // a few of those that go are shown in any case
		}
		chosen = append(chosen, all[:min(len(all), most)]...)
	}
	slices.Sort(chosen)
	return chosen
}

// planned reports on one object.
func planned(res *plan.Result, o *plan.Object, requested map[graph.Key]bool) PlannedObject {
	p := PlannedObject{
		Object: objectOf(o.Key, o.Record), Fate: string(o.Fate), Reason: string(o.Reason), Held: string(o.Held), Policy: string(o.Policy),
		Step: o.Step, AfterSeconds: o.At.Seconds(), Requested: requested[o.Key],
		TimedOut: o.TimedOut, Ring: o.Ring, Uncertain: o.Uncertain, BlockedBy: indexed(res, o.Blockers),
	}
	if o.By >= 0 {
		p.BecauseOf = res.Objects[o.By].Record.UID
	}
	for _, ref := range o.Loses {
		p.Loses = append(p.Loses, ownerOf(ref, ""))
	}
	for _, k := range o.Keeps {
		p.KeptBy = append(p.KeptBy, ownerOf(k.Reference, k.State.String()))
	}
	p.Text = fateText(o, &p)
	return p
}

func ownerOf(ref graph.Reference, state string) Owner {
	return Owner{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name, UID: string(ref.UID), BlockOwnerDeletion: ref.BlockOwnerDeletion == graph.True, State: state}
}

// indexed names some objects of a result.
func indexed(res *plan.Result, all []int) Objects {
	nodes := make([]graph.Node, len(all))
	for i, n := range all {
		nodes[i] = graph.Node{Key: res.Objects[n].Key, Record: res.Objects[n].Record}
	}
	return objectsOf(nodes)
}

// fateText adds in words what an object's fate does not say.
func fateText(o *plan.Object, p *PlannedObject) string {
	var parts []string
	say := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if len(p.Loses) > 0 && o.Fate != plan.Gone {
		say("loses its reference to %s", ownersText(p.Loses))
	}
	switch o.Fate {
	case plan.Gone:
		if o.TimedOut {
			say("its foreground deletion times out after %s", o.At.Round(time.Second))
		}
	case plan.Stuck:
		say("%s", heldText(o, p))
		if o.TimedOut {
			say("its foreground deletion times out before that")
		}
	default:
		say("%s", keptText(o, p))
	}
	if o.Ring > 0 {
		say("part of ring %d, which is broken", o.Ring)
	}
	if o.Uncertain {
		say("this depends on what the collector looks at first")
	}
	return strings.Join(parts, "; ")
}

// untilFinalizer is said of an object whose finalizers nobody has read.
const untilFinalizer = "until a finalizer that is not the collector's is taken off"

func heldText(o *plan.Object, p *PlannedObject) string {
	switch o.Held {
	case plan.OtherFinalizer:
		return untilFinalizer
	case plan.HasContents:
		return "until everything in it is gone"
	case plan.ControllerOff:
		return "until the namespace controller runs, which is disabled in the server"
	case plan.OrphaningWaits:
		return "until all resources that may hold dependents of it can be listed"
	}
	if p.BlockedBy.Count > 0 {
		return "blocked by " + p.BlockedBy.text(2)
	}
	return "waits for its dependents"
}

// keptText says why an object that nobody deletes stays.
func keptText(o *plan.Object, p *PlannedObject) string {
	if o.Held == plan.GivenUp {
		return "no owner keeps it, but Kubernetes' collector looks at it again only when something changes"
	}
	switch decide.Reason(o.Held) {
	case decide.OwnerSolid, decide.SomeDangling:
		var solid []Owner
		for _, k := range p.KeptBy {
			if k.State == decide.Solid.String() {
				solid = append(solid, k)
			}
		}
		return "kept by " + ownersText(solid)
	case decide.NoReferences:
		return "has no owner then"
	case decide.OwnerUnknown:
		return "an owner of it cannot be looked up: nobody serves its kind, or that version of it"
	case decide.OwnerInvalid:
		return "it is cluster-scoped and names a namespaced owner"
	case decide.BeingDeleted:
		return "was being deleted before"
	}
	return sentence(decide.Reason(o.Held))
}

// ownersText names the first owners and counts the others.
func ownersText(owners []Owner) string {
	var names []string
	for _, o := range owners[:min(len(owners), 2)] {
		names = append(names, visible(o.Kind+" "+o.Name))
	}
	text := strings.Join(names, ", ")
	if more := len(owners) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// noteText says in words what cannot be foretold.
func noteText(k plan.NoteKind) string {
	return map[plan.NoteKind]string{
		plan.PodGrace:         "a pod goes once its containers have stopped, after its grace period at the latest",
		plan.Protected:        "a protection finalizer of Kubernetes is taken off once nothing uses the object; until then it stays Terminating",
		plan.ControllerReacts: "the controller of a deleted object stays, and may create another",
		plan.ForeignFinalizer: "the owner of a finalizer may take it off at any time; then the object goes",
		plan.UnseenOwner:      "an owner could not be read, and is assumed to exist",
		plan.Timing:           "what becomes of an object depends on what the collector looks at first",
	}[k]
}
