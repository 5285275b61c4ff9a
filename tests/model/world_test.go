package model

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// kind is a resource of the simulated server. Kinds with one storage show the same
// objects under different names.
type kind struct {
	*graph.Resource
	storage string
}

func newKind(group, name, k string, namespaced, monitored bool, storage string, versions ...string) *kind {
	return &kind{&graph.Resource{Group: group, Name: name, Kind: k, Versions: versions, Namespaced: namespaced, Monitored: monitored}, storage}
}

// The kinds of all worlds.
var (
	alphas  = newKind("", "alphas", "Alpha", true, true, "alphas", "v1")
	betas   = newKind("ex.io", "betas", "Beta", true, true, "betas", "v2", "v1")
	mirrors = newKind("old.io", "mirrors", "Beta", true, true, "betas", "v1")
	gammas  = newKind("ex.io", "gammas", "Gamma", false, true, "gammas", "v1")
	// A shadow has no monitor: it can own objects and cannot be collected.
	shadows = newKind("ex.io", "shadows", "Shadow", true, false, "shadows", "v1")

	allKinds = []*kind{alphas, betas, mirrors, gammas, shadows}
)

// object is what the server stores. It is immutable: a write stores a new one.
type object struct {
	storage         string
	namespace, name string
	uid             types.UID
	// version counts the writes to this object. That is enough for a precondition, and
	// it does not depend on the order of writes to other objects.
	version  int
	refs     []graph.Reference
	deleting bool
	// createdAt is when somebody created it, and deletedAt when somebody deleted it.
	createdAt, deletedAt time.Time
	// timeout is the object's own timeout for its foreground deletion: 0 for the
	// default, graph.NoTimeout for none.
	timeout time.Duration
	// held is a foreign finalizer; the two others are the collector's.
	held, foreground, orphan bool
	// named holds, for the oracle, when each reference was added.
	named map[graph.Reference]moment
}

// moment is a time, and the number of writes before it.
type moment struct {
	at    time.Time
	write int
}

func (o *object) waits() bool { return o.deleting && o.foreground }

// without returns the object without one of the collector's finalizers.
func (o *object) without(orphan bool) *object {
	released := *o
	if orphan {
		released.orphan = false
	} else {
		released.foreground = false
	}
	return &released
}

// bound reports whether a finalizer holds the object.
func (o *object) bound() bool { return o.held || o.foreground || o.orphan }

func (o *object) record() *graph.Record {
	r := &graph.Record{
		Namespace: o.namespace, Name: o.name, UID: o.uid, ResourceVersion: strconv.Itoa(o.version),
		References: o.refs, Deleting: o.deleting, Foreground: o.foreground, Orphan: o.orphan, OtherFinalizers: o.held,
		SyncTimeout: o.timeout, CreatedAt: uint32(max(o.createdAt.Unix(), 0)),
	}
	if o.deleting {
		r.DeletedAt = o.deletedAt.Unix()
	}
	return r
}

// place returns the path of an object, or of the objects of a namespace if the name is
// empty.
func place(k *kind, namespace, name string) string {
	return path.Join(k.GroupResource().String(), namespace, name)
}

type nameKey struct{ storage, namespace, name string }

// outcome is the server's answer.
type outcome int

const (
	ok outcome = iota
	notFound
	conflict
	unserved // a generic 404: it proves nothing
)

// server is the API server: only it holds the true state.
type server struct {
	objects map[types.UID]*object
	names   map[nameKey]types.UID
	served  map[*kind]bool
	// wasUnserved holds the kinds that were not served at some time. hidden holds those
	// that are not served now though their objects may exist.
	wasUnserved, hidden map[*kind]bool
	// ending holds the namespaces that are being deleted.
	ending map[string]bool
	// tell is called for every change, with the new state of the object or, for its
	// end, with the last one.
	tell   func(o *object, ended bool)
	writes int
	now    time.Time

	// What follows is for the oracle.

	// born says when each object was created, and deleted when it was deleted, those among them that have gone.
	born, deleted map[types.UID]time.Time
	// waited says when an existing object ceased to wait for its dependents.
	waited map[types.UID]time.Time
	// orphaned holds the owners that the collector has released after they were deleted
	// with propagation policy Orphan, in their last state.
	orphaned map[types.UID]*object
	// orphaning holds every object that ever waited for orphaning.
	orphaning map[types.UID]bool
	// forgotten holds those of the orphaned owners that a user has since deleted with
	// another policy, while a foreign finalizer held them.
	forgotten map[types.UID]bool
	// ghosts holds every state that objects have had. While a kind is hidden, nobody
	// can see that the last state shown of an object is outdated.
	ghosts []*object
}

func newServer() *server {
	s := &server{
		objects: map[types.UID]*object{}, names: map[nameKey]types.UID{},
		served: map[*kind]bool{}, wasUnserved: map[*kind]bool{}, hidden: map[*kind]bool{}, ending: map[string]bool{}, now: epoch,
		born: map[types.UID]time.Time{}, deleted: map[types.UID]time.Time{}, waited: map[types.UID]time.Time{}, orphaned: map[types.UID]*object{}, forgotten: map[types.UID]bool{}, orphaning: map[types.UID]bool{},
		tell: func(*object, bool) {},
	}
	for _, k := range allKinds {
		s.served[k] = true
	}
	return s
}

// put stores an object. An object that is being deleted and that no finalizer holds is
// removed.
func (s *server) put(o object) {
	old := s.objects[o.uid]
	if o.deleting && !o.bound() {
		s.remove(&o)
		return
	}
	s.writes++
	o.version++
	if old == nil {
		o.createdAt = s.now
		s.born[o.uid] = s.now
	}
	if old != nil && old.waits() && !o.waits() {
		s.waited[o.uid] = s.now
	}
	if o.deleting && o.orphan {
		s.orphaning[o.uid] = true
	}
	named := map[graph.Reference]moment{}
	for _, r := range o.refs {
		named[r] = moment{s.now, s.writes}
		if old != nil && slices.Contains(old.refs, r) {
			named[r] = old.named[r]
		}
		blocking := r
		blocking.BlockOwnerDeletion = graph.True
		if r.BlockOwnerDeletion == graph.False && old != nil && slices.Contains(old.refs, blocking) {
			named[r] = old.named[blocking]
		}
	}
	o.named = named
	s.objects[o.uid] = &o
	s.names[nameKey{o.storage, o.namespace, o.name}] = o.uid
	s.ghosts = append(s.ghosts, &o)
	s.tell(&o, false)
}

func (s *server) remove(o *object) {
	s.writes++
	last := *o
	last.version++
	delete(s.objects, o.uid)
	delete(s.names, nameKey{o.storage, o.namespace, o.name})
	s.tell(&last, true)
}

// get reads an object at a version of a kind.
func (s *server) get(k *kind, version, namespace, name string) (*object, outcome) {
	if !s.served[k] || !slices.Contains(k.Versions, version) {
		return nil, unserved
	}
	uid, found := s.names[nameKey{k.storage, namespace, name}]
	if !found {
		return nil, notFound
	}
	return s.objects[uid], ok
}

// current is get, with the preconditions of a write checked.
func (s *server) current(k *kind, rec *graph.Record) (*object, outcome) {
	o, out := s.get(k, k.Versions[0], rec.Namespace, rec.Name)
	if out == ok && (o.uid != rec.UID || strconv.Itoa(o.version) != rec.ResourceVersion) {
		return o, conflict
	}
	return o, out
}

// policy is how an object is to be deleted; the zero value leaves that to the object's
// finalizers.
type policy = metav1.DeletionPropagation

const (
	background = metav1.DeletePropagationBackground
	foreground = metav1.DeletePropagationForeground
	orphan     = metav1.DeletePropagationOrphan
)

// end deletes an object, or marks it as being deleted if a finalizer holds it. A policy
// sets the collector's finalizers, also on an object that is already being deleted.
func (s *server) end(o *object, p policy) {
	marked := *o
	if !o.deleting {
		marked.deleting, marked.deletedAt = true, s.now
		s.deleted[o.uid] = s.now
	}
	if p != "" {
		marked.foreground, marked.orphan = p == foreground, p == orphan
	} else if o.orphan {
		marked.foreground = false
	}
	if !o.deleting || marked.foreground != o.foreground || marked.orphan != o.orphan {
		if p != "" && p != orphan && s.orphaned[o.uid] != nil {
			s.forgotten[o.uid] = true
		}
		s.put(marked)
	}
}

// drop removes references from an object.
func (s *server) drop(o *object, drop []graph.Reference) {
	kept := *o
	kept.refs = without(o.refs, drop)
	s.put(kept)
}

func without(refs, drop []graph.Reference) []graph.Reference {
	return slices.DeleteFunc(slices.Clone(refs), func(r graph.Reference) bool { return slices.Contains(drop, r) })
}

// unblock sets blockOwnerDeletion to false in references of an object.
func (s *server) unblock(o *object, unblock []graph.Reference) {
	free := *o
	free.refs = unblocking(o.refs, unblock)
	s.put(free)
}

func unblocking(refs, unblock []graph.Reference) []graph.Reference {
	refs = slices.Clone(refs)
	for i, r := range refs {
		if slices.Contains(unblock, r) {
			refs[i].BlockOwnerDeletion = graph.False
		}
	}
	return refs
}

// setServed makes a kind appear or disappear. Unless the kind has ended, its objects
// stay in the store, as when the server that serves them is down.
func (s *server) setServed(k *kind, served, ended bool) {
	s.served[k] = served
	s.hidden[k] = !served && !ended
	if !served {
		s.wasUnserved[k] = true
	}
}

func (k *kind) String() string { return k.Name }

func kindOf(gr fmt.Stringer) *kind {
	for _, k := range allKinds {
		if k.GroupResource().String() == gr.String() {
			return k
		}
	}
	panic("no such resource: " + gr.String())
}
