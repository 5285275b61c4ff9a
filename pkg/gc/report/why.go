package report

import (
	"fmt"
	"time"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/pause"
)

// Why says why an object is there, or still there, and what the collector will do
// about it.
type Why struct {
	// Version is that of these fields: some may be added to a version, none is taken away or changed.
	Version int    `json:"version"`
	Basis   Basis  `json:"basis"`
	Object  Object `json:"object"`
	// DeletedAt is when somebody deleted it; the zero time if nobody has.
	DeletedAt time.Time `json:"deletedAt,omitzero"`
	// Finalizers are those that the object carries, as whoever asked has read them.
	Finalizers []string `json:"finalizers,omitempty"`
	// Action is what the collector would do now, and Reason why, both as in the
	// metrics; Text says it in a sentence.
	Action string `json:"action"`
	Reason string `json:"reason"`
	Text   string `json:"text"`
	// Again is when the collector looks at it again though nothing happens; the zero
	// time for never.
	Again      time.Time `json:"again,omitzero"`
	Owners     []Owner   `json:"owners,omitempty"`
	Dependents Objects   `json:"dependents,omitzero"`
	// BlockedBy are the dependents that its foreground deletion waits for, and Deadline
	// is when it is given up on unless there is progress; the zero time for never.
	BlockedBy Objects   `json:"blockedBy,omitzero"`
	Deadline  time.Time `json:"deadline,omitzero"`
	// HeldBy are the objects that its foreground deletion waits for in the end, behind whatever blocks it: those that do
	// not go by themselves, the first of HeldByCount.
	HeldBy      []Holder `json:"heldBy,omitempty"`
	HeldByCount int      `json:"heldByCount,omitempty"`
	// Ring holds members of a ring if everything behind the object waits for something else there.
	Ring []Object `json:"ring,omitempty"`
	// Contents is what is in a namespace; nil for any other object.
	Contents *Contents `json:"contents,omitempty"`
	// Failed is why the collector's last attempt with the object failed; it will be tried again.
	Failed string `json:"failed,omitempty"`
	// Commands would free the object, each at a price.
	Commands []Command `json:"commands,omitempty"`
	// Now is the server's clock.
	Now   time.Time    `json:"now"`
	Pause *pause.State `json:"pause,omitempty"`
}

// WhyVersion is the Version of a Why.
const WhyVersion = 1

// Owner is one of an object's references, and what is known of whom it names.
type Owner struct {
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	UID                string `json:"uid"`
	BlockOwnerDeletion bool   `json:"blockOwnerDeletion"`
	// State is the judgement: solid, waiting, dangling, orphaned, unknown, invalid or
	// unverified; Text says it in words.
	State string `json:"state"`
	Text  string `json:"text"`
}

// Explain says what there is to say about an object from its view, which must be
// complete, and the time.
func Explain(g *graph.Graph, v *graph.View, o decide.Options, now time.Time) Why {
	d := decide.From(g, v, o, now)
	w := Why{
		Version: WhyVersion, Object: objectOf(v.Key, v.Record), Now: now.UTC(),
		Action: d.Action.String(), Reason: string(d.Reason), Text: sentence(d.Reason), Again: utc(d.Again),
		Dependents: objectsOf(g.Dependents(v.Key.UID)),
	}
	if v.Record.Deleting {
		w.DeletedAt = time.Unix(v.Record.DeletedAt, 0).UTC()
	}
	if v.Record.WaitingForDependents() && !v.Record.Orphan {
		w.BlockedBy, w.Deadline = blockersOf(g, v), deadline(g, v, o, now)
		b := behindOf(g, v.Key, o, now)
		w.HeldBy, w.HeldByCount, w.Ring = b.held, b.count, b.members
	}
	if w.Object.IsNamespace() {
		w.Contents = contentsOf(g, v.Record.Name, v.Record.Deleting)
		if v.Record.Deleting {
			w.Text = "somebody has deleted it; it goes once nothing is left in it"
		}
	}
	for i := range v.Owners {
		o := &v.Owners[i]
		s := decide.Judge(o, v.Record.Namespace, now)
		w.Owners = append(w.Owners, Owner{
			APIVersion: o.Reference.APIVersion, Kind: o.Reference.Kind, Name: o.Reference.Name, UID: string(o.Reference.UID),
			BlockOwnerDeletion: o.Reference.BlockOwnerDeletion == graph.True,
			State:              s.String(), Text: judgement(s, o),
		})
	}
	return w
}

// utc is for people in other time zones than the server; it also takes off the
// monotonic reading.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Round(0)
}

// sentence says a reason in words.
func sentence(r decide.Reason) string {
	return map[decide.Reason]string{
		decide.NoReferences:      "it names no owner, so the collector leaves it alone",
		decide.BeingDeleted:      "somebody has deleted it; a finalizer that is not the collector's, or a grace period, keeps it",
		decide.OwnerSolid:        "an owner of it exists",
		decide.OwnerUnknown:      "nobody can tell whether an owner exists: no server serves its kind, or that version of it; the object stays",
		decide.OwnerInvalid:      "a cluster-scoped object names an owner of a namespaced kind, which can be in any namespace; the object stays",
		decide.OwnerUnverified:   "an owner has to be read live before anything is decided",
		decide.Missing:           "its monitor does not show it any more; it has to be read live",
		decide.OwnersDangling:    "none of its owners exists; the object will be deleted",
		decide.OwnerWaiting:      "every owner is gone or in foreground deletion, and at least one is waiting for its dependents; the object will be deleted",
		decide.SomeDangling:      "an owner exists and others are gone or going: the references to those are dropped",
		decide.OwnerOrphaned:     "an owner was deleted with propagation policy Orphan; the reference to it will be dropped",
		decide.Orphaning:         "it is deleted and its dependents are to stay: their references to it are dropped, then it goes",
		decide.WaitsForDependent: "it is in foreground deletion and waits for the dependents that block it",
		decide.Settling:          "it is in foreground deletion and nothing is known to block it; the collector makes sure that no dependent is on its way",
		decide.ControllerBehind:  "it is in foreground deletion and its controller, which has not seen its last change, may still be creating dependents",
		decide.TimedOut:          "it is in foreground deletion and has waited long enough: it goes before the dependents that block it",
		decide.NothingBlocks:     "it is in foreground deletion and nothing blocks it any more: it goes",
	}[r]
}

// judgement says in words what is known of an owner.
func judgement(s decide.State, o *graph.OwnerView) string {
	r := printable(&o.Reference)
	switch s {
	case decide.Solid:
		return "exists"
	case decide.Waiting:
		return "is in foreground deletion and waits for its dependents"
	case decide.Dangling:
		if o.Elsewhere {
			return "does not exist in this namespace, where an owner has to be; it does in another"
		}
		return "does not exist"
	case decide.Orphaned:
		return "was deleted with propagation policy Orphan"
	case decide.Unknown:
		if o.KindServed {
			return fmt.Sprintf("cannot be looked up: %s is not served in version %s", r.Kind, r.APIVersion)
		}
		return fmt.Sprintf("cannot be looked up: no server serves %s of %s", r.Kind, r.APIVersion)
	case decide.Invalid:
		return fmt.Sprintf("cannot be an owner: %s is namespaced and the object is not", r.Kind)
	}
	return "has to be read live"
}
