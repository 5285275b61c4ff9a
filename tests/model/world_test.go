package model

import (
	"fmt"
	"slices"
	"strconv"

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
	// Nothing watches a shadow: it can own, and cannot be collected.
	shadows = newKind("ex.io", "shadows", "Shadow", true, false, "shadows", "v1")

	allKinds = []*kind{alphas, betas, mirrors, gammas, shadows}
)

// object is what the server stores. It is immutable: a write stores another.
type object struct {
	storage         string
	namespace, name string
	uid             types.UID
	// version counts the writes to this object: enough for a precondition, and equal
	// for histories that differ only in the order of writes to others.
	version  int
	refs     []graph.Reference
	deleting bool
	// held is somebody else's finalizer.
	held bool
}

func (o *object) record() *graph.Record {
	return &graph.Record{
		Namespace: o.namespace, Name: o.name, UID: o.uid, ResourceVersion: strconv.Itoa(o.version),
		References: o.refs, Deleting: o.deleting,
	}
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

// server is the API server: it alone knows what is true.
type server struct {
	objects map[types.UID]*object
	names   map[nameKey]types.UID
	served  map[*kind]bool
	// wasUnserved holds kinds that were not served at some time.
	wasUnserved map[*kind]bool
	// tell is called for every change, with what remains of the object or, for
	// its end, with its last state.
	tell   func(o *object, ended bool)
	writes int
}

func newServer() *server {
	s := &server{
		objects: map[types.UID]*object{}, names: map[nameKey]types.UID{},
		served: map[*kind]bool{}, wasUnserved: map[*kind]bool{},
		tell: func(*object, bool) {},
	}
	for _, k := range allKinds {
		s.served[k] = true
	}
	return s
}

func (s *server) put(o object) {
	s.writes++
	o.version++
	s.objects[o.uid] = &o
	s.names[nameKey{o.storage, o.namespace, o.name}] = o.uid
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

// current is get with the preconditions of a write.
func (s *server) current(k *kind, rec *graph.Record) (*object, outcome) {
	o, out := s.get(k, k.Versions[0], rec.Namespace, rec.Name)
	if out == ok && (o.uid != rec.UID || strconv.Itoa(o.version) != rec.ResourceVersion) {
		return o, conflict
	}
	return o, out
}

// end deletes an object, or marks it if something holds it.
func (s *server) end(o *object) {
	switch {
	case !o.held:
		s.remove(o)
	case !o.deleting:
		marked := *o
		marked.deleting = true
		s.put(marked)
	}
}

// setServed makes a kind appear or disappear. Its objects stay in the store, as
// when the server that answers for them is down.
func (s *server) setServed(k *kind, served bool) {
	s.served[k] = served
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
