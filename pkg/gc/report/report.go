// Package report is what the collector tells people: one model of its state and of
// its decisions, made from the graph and by decide, printed as text or JSON and
// served over HTTP. The JSON fields are stable.
//
// It reads and changes nothing.
package report

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/lint"
	"github.com/reap-dev/reap/pkg/gc/pause"
)

// Object names an object of the API.
type Object struct {
	Group     string    `json:"group,omitempty"`
	Resource  string    `json:"resource"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

func objectOf(k graph.Key, rec *graph.Record) Object {
	return Object{Group: k.Resource.Group, Resource: k.Resource.Resource, Namespace: rec.Namespace, Name: rec.Name, UID: rec.UID}
}

// ObjectOf names an observed object.
func ObjectOf(n graph.Node) Object { return objectOf(n.Key, n.Record) }

// withoutNewUID takes away a UID that stands for one that the object will get when it is created.
func withoutNewUID(o Object) Object {
	if strings.HasPrefix(string(o.UID), lint.NewUID) {
		o.UID = ""
	}
	return o
}

// OwnerObject names the owner that a reference names; without a resource if nobody serves its kind.
func OwnerObject(o *graph.OwnerView) Object {
	named := Object{Group: o.At.Group, Namespace: o.At.Namespace, Name: o.At.Name, UID: o.Reference.UID, Resource: strings.ToLower(o.At.Kind)}
	if o.Resource != nil {
		named.Resource = o.Resource.Name
	}
	return named
}

// GroupResource returns the object's resource.
func (o Object) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: o.Group, Resource: o.Resource}
}

// String returns the object as reap's commands take it: deployments.apps/web -n shop.
func (o Object) String() string {
	s := o.Resource
	if o.Group != "" {
		s += "." + o.Group
	}
	s += "/" + o.Name
	if o.Namespace != "" {
		s += " -n " + o.Namespace
	}
	return visible(s)
}

// listed is how many objects of one kind are listed by name in a report of something
// else; the rest is counted.
const listed = 10

// Objects is some objects of a greater number.
type Objects struct {
	Count int      `json:"count"`
	First []Object `json:"first,omitempty"`
}

func objectsOf(all []graph.Node) Objects {
	o := Objects{Count: len(all)}
	for _, d := range all {
		o.First = append(o.First, objectOf(d.Key, d.Record))
	}
	// In an order of their own: the graph has none, and two reports should agree.
	slices.SortFunc(o.First, func(a, b Object) int { return strings.Compare(a.String(), b.String()) })
	if len(o.First) > listed {
		o.First = o.First[:listed]
	}
	return o
}

// searched is up to how many blockers are looked at to list the first of them.
const searched = 1000

// blockersOf returns what an object in foreground deletion waits for.
func blockersOf(g *graph.Graph, v *graph.View) Objects {
	o := objectsOf(g.Blockers(v.Key, searched))
	o.Count = v.Blocking
	return o
}

// Status is what the collector is doing.
type Status struct {
	// Version is that of these fields: some may be added to a version, none is taken away or changed.
	Version int `json:"version"`
	// Running is false if no collector runs in the server that was asked; Absent says
	// why, and Elsewhere is true if another server's collector works on the same objects; of the rest only Disabled is set.
	Running   bool   `json:"running"`
	Absent    string `json:"absent,omitempty"`
	Elsewhere bool   `json:"elsewhere,omitempty"`
	// Disabled names the controllers that do not run in the server that was asked.
	Disabled []string  `json:"disabled,omitempty"`
	Since    time.Time `json:"since,omitzero"` // when it started
	Now      time.Time `json:"now,omitzero"`   // on the server's clock
	// Pause is set while the collector is paused, or before it knows that it is not.
	Pause *pause.State `json:"pause,omitempty"`
	// Guard is set if the collector pauses itself when too many deletions rest on lookups alone.
	Guard *Guard `json:"guard,omitempty"`
	// Synced is true once every resource that can be read has been listed.
	Synced  bool `json:"synced"`
	Workers int  `json:"workers"`
	Busy    int  `json:"busy"` // attempts under way
	// Breaking is true while rings are being broken, which no worker does.
	Breaking bool    `json:"breaking,omitempty"`
	Queues   []Queue `json:"queues,omitempty"`
	// Objects, References and Virtual count what the graph holds; Virtual are owners
	// that references name and no monitor shows.
	Objects    int `json:"objects"`
	References int `json:"references"`
	Virtual    int `json:"virtual"`
	// Collected counts the objects that were deleted since the start.
	Collected int64     `json:"collected"`
	Monitors  []Monitor `json:"monitors,omitempty"`
	// Cascades are the deletions that run or have just ended, the one that began last first; CascadeCount is how many
	// there are.
	Cascades     []Cascade `json:"cascades,omitempty"`
	CascadeCount int       `json:"cascadeCount"`
	// Failing are the first of FailingCount objects whose last attempt failed, and why.
	Failing      []Failure `json:"failing,omitempty"`
	FailingCount int       `json:"failingCount"`
	// Holds are the reasons for which orphaning deletions wait.
	Holds []Hold `json:"holds,omitempty"`
	// Waiting are the objects that have been deleted and are still there, oldest first;
	// WaitingCount is how many there are, of which the oldest are listed.
	Waiting      []Waiting `json:"waiting,omitempty"`
	WaitingCount int       `json:"waitingCount"`
}

// StatusVersion is the Version of a Status.
const StatusVersion = 1

// Guard is how many deletions rest on lookups alone: nobody has seen an owner being deleted.
type Guard struct {
	Limit         int     `json:"limit"`
	WithinSeconds float64 `json:"withinSeconds"`
	// Deleted are the objects that were deleted so within that time.
	Deleted Objects `json:"deleted"`
	// Next is the object that would have been one too many; set while the guard has paused the collector.
	Next *Object `json:"next,omitempty"`
}

// NewGuard makes the report of a guard.
func NewGuard(limit int, within time.Duration, deleted []graph.Node, next *graph.Node) *Guard {
	g := &Guard{Limit: limit, WithinSeconds: within.Seconds(), Deleted: objectsOf(deleted)}
	if next != nil {
		o := ObjectOf(*next)
		g.Next = &o
	}
	return g
}

// Failure is an object about which the collector's last attempt failed; it will be tried again.
type Failure struct {
	Object Object `json:"object"`
	// Failures counts the attempts that failed in a row since Since.
	Failures int       `json:"failures"`
	Since    time.Time `json:"since"`
	Error    string    `json:"error"`
}

// Queue is one of the collector's queues.
type Queue struct {
	Name   string `json:"name"`
	Length int    `json:"length"`
	// OldestSeconds is how long the object that has waited longest for its turn has
	// waited.
	OldestSeconds float64 `json:"oldestSeconds"`
}

// Monitor is the watch of one resource.
type Monitor struct {
	Resource string `json:"resource"`
	// State is syncing, synced, failing or draining.
	State string    `json:"state"`
	Error string    `json:"error,omitempty"`
	Since time.Time `json:"since,omitzero"` // when it began to fail
}

// Hold is a reason why orphaning deletions wait: there may be dependents that cannot be
// listed.
type Hold struct {
	// Resource is the resource that cannot be listed; "" if it is unknown. APIService is the
	// APIService that serves it; "" if none is known.
	Resource   string `json:"resource,omitempty"`
	APIService string `json:"apiService,omitempty"`
	// Objects is the number of known objects, from when the resource could be listed.
	Objects int    `json:"objects,omitempty"`
	Why     string `json:"why"`
	// Remedy says what ends it.
	Remedy string `json:"remedy"`
}

// Waiting is an object that has been deleted and is still there.
type Waiting struct {
	Object Object `json:"object"`
	// Policy is foreground or orphan while it stays for the sake of its dependents, and background otherwise.
	Policy    string    `json:"policy"`
	DeletedAt time.Time `json:"deletedAt"`
	// BlockedBy are the dependents that a foreground deletion waits for; one with two
	// references counts twice.
	BlockedBy Objects `json:"blockedBy,omitzero"`
	// Deadline is when a foreground deletion is given up on unless there is progress;
	// the zero time for never.
	Deadline time.Time `json:"deadline,omitzero"`
	// Finalizers are the first of those that hold it, without the collector's own.
	Finalizers []string `json:"finalizers,omitempty"`
}

// blockers says what it waits for.
func (w *Waiting) blockers() string {
	switch {
	case w.BlockedBy.Count > 0:
		return w.BlockedBy.text(2)
	case w.Policy == "orphan":
		return "its dependents, which are being orphaned"
	case len(w.Finalizers) > 0:
		return finalizerNames(w.Finalizers)
	case w.Policy == "foreground":
		return "-"
	case w.Object.IsNamespace():
		return "what is in it, or spec.finalizers"
	}
	return "its grace period"
}

// finalizerNames names finalizers.
func finalizerNames(all []string) string {
	text := "finalizer "
	if len(all) > 1 {
		text = "finalizers "
	}
	return text + visible(strings.Join(all, ", "))
}

// waitingListed is how many waiting deletions a status lists.
const waitingListed = 100

// WaitingIn returns the objects that have been deleted and are still there at the time now, the oldest
// deletion first and a hundred at the most, and how many there are.
func WaitingIn(g *graph.Graph, o decide.Options, now time.Time) (list []Waiting, count int) {
	all := append(g.Collecting(), g.Terminating()...)
	slices.SortFunc(all, func(a, b graph.Node) int {
		return cmp.Or(cmp.Compare(a.Record.DeletedAt, b.Record.DeletedAt), cmp.Compare(a.Key.UID, b.Key.UID))
	})
	for _, n := range all[:min(len(all), waitingListed)] {
		w := Waiting{Object: objectOf(n.Key, n.Record), DeletedAt: time.Unix(n.Record.DeletedAt, 0).UTC(), Policy: policyOf(n.Record), Finalizers: n.Record.Finalizers.Names()}
		if v, ok := g.View(n.Key); ok && w.Policy == "foreground" {
			w.BlockedBy, w.Deadline = blockersOf(g, &v), deadline(g, &v, o, now)
		}
		list = append(list, w)
	}
	return list, len(all)
}

// policyOf is how an object has been deleted, as far as it shows.
func policyOf(r *graph.Record) string {
	switch {
	case r.Orphan:
		return "orphan"
	case r.Foreground:
		return "foreground"
	}
	return "background"
}

// deadline returns when the foreground deletion of an object that has to wait is given
// up on.
func deadline(g *graph.Graph, v *graph.View, o decide.Options, now time.Time) time.Time {
	if v.Blocking == 0 && !v.SyncedSince.IsZero() {
		return time.Time{} // it goes within seconds
	}
	decide.From(g, v, o, now) // surveys, if that is what the deadline depends on
	t, _ := decide.Deadline(v, o, now)
	return utc(t)
}
