package model

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// op is a kind of step.
type op string

const (
	opCreate  op = "create"  // a user: uid, kind, namespace, name, refs, held
	opDelete  op = "delete"  // a user: uid, policy
	opEdit    op = "edit"    // a user: uid, refs
	opRelease op = "release" // a user: uid; the foreign finalizer goes
	opHold    op = "hold"    // a user: uid; it gets a foreign finalizer
	opStrip   op = "strip"   // a user: uid; the collector's finalizers go
	opPurge   op = "purge"   // a CRD goes: its objects first, then the kind
	opUnserve op = "unserve" // a kind is no longer served; its objects stay unseen
	opServe   op = "serve"
	opDeliver op = "deliver"         // a monitor's next event reaches the graph
	opRelist  op = "relist"          // a monitor loses all but n undelivered events, and lists; held: the list is empty
	opSweep   op = "sweep"           // a monitor is replaced by a new one
	opResync  op = "resync"          // discovery is asked
	opRetire  op = "retire"          // a monitor whose kind has gone is stopped
	opBegin   op = "begin"           // a worker n takes key from the queue
	opStep    op = "step"            // worker n goes on; held: the call fails
	opTick    op = "tick"            // n minutes pass
	opPause   op = "pause"           // n quarters of a second pass, after everything that was sent has arrived
	opOrphan  op = "begin orphaning" // worker n takes key from the orphaning queue
	opLook    op = "look for rings"  // n: in which order
	opBreak   op = "break rings"     // the nth of the calls that the search may make next; held: the call fails
	opExpire  op = "expire"          // the deadline of key, in foreground deletion, passes
	opHalt    op = "pause the collector"
	opGoOn    op = "resume the collector"
	opEnd     op = "end"   // a namespace is deleted: nothing is created in it until it is empty
	opEmpty   op = "empty" // in a namespace that ends, the objects of a kind are deleted
)

// action is one step, as a value: a history can be replayed and shortened.
type action struct {
	op              op
	kind            *kind
	uid             types.UID
	namespace, name string
	refs            []graph.Reference
	held            bool
	n               int
	choice          int // which of a worker's calls
	key             graph.Key
	policy          policy
	// timeout is the object's own timeout for its foreground deletion.
	timeout time.Duration
}

func (a action) String() string {
	var b strings.Builder
	b.WriteString(string(a.op))
	if a.kind != nil {
		fmt.Fprintf(&b, " %s", a.kind)
	}
	if a.op == opCreate {
		fmt.Fprintf(&b, " %q/%q", a.namespace, a.name)
	}
	if a.op == opEnd || a.op == opEmpty {
		fmt.Fprintf(&b, " namespace %q", a.namespace)
	}
	if a.uid != "" {
		fmt.Fprintf(&b, " %s", a.uid)
	}
	if a.timeout != 0 {
		fmt.Fprintf(&b, " timeout %s", a.timeout)
	}
	if a.op == opCreate || a.op == opEdit {
		b.WriteString(" refs")
		for _, r := range a.refs {
			fmt.Fprintf(&b, " [%s %s %s uid %s%s]", r.APIVersion, r.Kind, r.Name, r.UID, map[graph.Flag]string{graph.True: " blocking"}[r.BlockOwnerDeletion])
		}
	}
	if a.key != (graph.Key{}) {
		fmt.Fprintf(&b, " %s %s", a.key.Resource, a.key.UID)
	}
	if a.policy != "" {
		fmt.Fprintf(&b, " %s", a.policy)
	}
	switch a.op {
	case opRelist, opBegin, opOrphan, opStep, opTick, opPause, opLook, opBreak:
		fmt.Fprintf(&b, " %d", a.n)
	}
	if a.choice > 0 {
		fmt.Fprintf(&b, ", its call %d", a.choice)
	}
	if a.held {
		b.WriteString(map[op]string{opCreate: " held", opStep: " fault", opBreak: " fault", opRelist: " empty"}[a.op])
	}
	return b.String()
}
