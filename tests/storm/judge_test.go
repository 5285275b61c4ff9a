package storm

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/tests/fakeapi"
)

// judge follows a server's history and checks whether the objects of that time justify each write of the collector. It
// knows of no graph and of no monitor, and holds for worlds without rings, without finalizers but Kubernetes' two, and
// in which nobody deletes an object a second time or refers to one that is being deleted.
type judge struct {
	t    *testing.T
	seen int // entries of the history
	// settled is how many of them there were when all had been seen by every collector that runs; 0 if one has started
	// since.
	settled int
	objects map[types.UID]*standing
	ended   map[types.UID]fakeapi.Object
	waited  map[types.UID]bool // objects that were in foreground deletion
	freeing map[types.UID]bool // objects whose dependents were to be orphaned
	counts  map[string]int
	// lied holds the resources whose lists have been empty, whatever there was, since all was last at rest. Who orphans
	// by such a list lets go of dependents that it does not show; their references are dropped once they turn up.
	lied map[string]bool
}

// standing is an object that exists.
type standing struct {
	fakeapi.Object
	born, changed int // the entries of the history that made it, and what it is
}

func newJudge(t *testing.T) *judge {
	j := &judge{t: t, counts: map[string]int{}, lied: map[string]bool{}}
	j.forget()
	return j
}

func (j *judge) forget() {
	j.seen, j.settled = 0, 0
	j.objects, j.ended = map[types.UID]*standing{}, map[types.UID]fakeapi.Object{}
	j.waited, j.freeing = map[types.UID]bool{}, map[types.UID]bool{}
}

// rebuild begins again with what a store that went back still has.
func (j *judge) rebuild(history []fakeapi.Change) {
	j.forget()
	for _, c := range history {
		j.take(c)
	}
}

// restarted is told of a collector that has yet to see what there is.
func (j *judge) restarted() { j.settled = 0 }

// look judges what has happened.
func (j *judge) look(changes []fakeapi.Change) {
	j.t.Helper()
	for _, c := range changes {
		if before := j.objects[c.UID]; c.ByCollector && before == nil {
			j.t.Errorf("the collector wrote %s %s, which did not exist", c.Resource.Name, c.Name)
		} else if c.ByCollector {
			j.write(before, c)
		}
		j.take(c)
	}
}

func (j *judge) take(c fakeapi.Change) {
	j.seen++
	if c.DeletionTimestamp != nil {
		j.waited[c.UID] = j.waited[c.UID] || slices.Contains(c.Finalizers, metav1.FinalizerDeleteDependents)
		j.freeing[c.UID] = j.freeing[c.UID] || slices.Contains(c.Finalizers, metav1.FinalizerOrphanDependents)
	}
	if c.Ended {
		delete(j.objects, c.UID)
		j.ended[c.UID] = c.Object
		return
	}
	born := j.seen
	if before := j.objects[c.UID]; before != nil {
		born = before.born
	}
	j.objects[c.UID] = &standing{c.Object, born, j.seen}
}

// older is true if an object was created before another.
func (j *judge) older(s *fakeapi.Server, a, b types.UID) bool {
	j.look(s.Changes(j.seen))
	return j.objects[a] != nil && j.objects[b] != nil && j.objects[a].born < j.objects[b].born
}

func (j *judge) write(before *standing, c fakeapi.Change) {
	j.t.Helper()
	switch {
	case before.DeletionTimestamp == nil && (c.Ended || c.DeletionTimestamp != nil):
		j.counts["deleted"]++
		if len(before.OwnerReferences) == 0 {
			j.t.Errorf("%s %s was deleted, and never had an owner", c.Resource.Name, c.Name)
		}
		for _, r := range before.OwnerReferences {
			if j.alive(before.Object, r) {
				j.t.Errorf("%s %s was deleted, and its owner %s exists", c.Resource.Name, c.Name, r.UID)
			} else if j.unknown(before.Object, r) {
				j.t.Errorf("%s %s was deleted, and nobody knows its owner's kind %s %s", c.Resource.Name, c.Name, r.APIVersion, r.Kind)
			} else if o := j.objects[r.UID]; o != nil && names(before.Object, r, o.Object) {
				j.counts["forWaiting"]++
			} else if o != nil {
				j.counts["misnamed"]++
			}
		}
		return
	case lost(before, c, metav1.FinalizerDeleteDependents):
		j.counts["released"]++
		for _, d := range j.dependents(before.Object) {
			if d.changed <= j.settled && d.blocks(before.UID) {
				j.t.Errorf("%s %s was released, and %s blocks it", c.Resource.Name, c.Name, d.Name)
			}
		}
	case lost(before, c, metav1.FinalizerOrphanDependents):
		j.counts["orphanings"]++
		for _, d := range j.dependents(before.Object) {
			if j.lied[d.Resource.Name] {
				continue
			}
			j.t.Errorf("%s %s was let go, and %s names it still", c.Resource.Name, c.Name, d.Name)
		}
	}
	if c.Ended {
		return
	}
	for _, r := range before.OwnerReferences {
		if slices.ContainsFunc(c.OwnerReferences, func(left metav1.OwnerReference) bool { return same(left, r) }) {
			continue
		}
		j.counts["freed"]++
		if !j.freeing[r.UID] {
			j.counts["dropped"]++
		}
		if !j.freeing[r.UID] && (j.alive(before.Object, r) || j.unknown(before.Object, r)) {
			j.t.Errorf("%s %s lost its owner %s", c.Resource.Name, c.Name, r.UID)
		}
	}
	for _, r := range c.OwnerReferences {
		if !slices.ContainsFunc(before.OwnerReferences, func(had metav1.OwnerReference) bool { return same(had, r) }) {
			j.t.Errorf("%s %s was given the owner %s, or had it changed", c.Resource.Name, c.Name, r.UID)
		}
	}
}

func lost(before *standing, c fakeapi.Change, finalizer string) bool {
	return slices.Contains(before.Finalizers, finalizer) && !slices.Contains(c.Finalizers, finalizer)
}

func same(a, b metav1.OwnerReference) bool {
	blocks := func(r metav1.OwnerReference) bool { return r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion }
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID && blocks(a) == blocks(b)
}

// unknown is true for a reference of a kind, or a version of one, that is never served. Nothing can be proved about its
// owner, except that an object of that kind was deleted.
func (j *judge) unknown(of fakeapi.Object, r metav1.OwnerReference) bool {
	o, ended := j.ended[r.UID]
	return (r.Kind == "Nothing" || strings.HasSuffix(r.APIVersion, "/v9")) && !(ended && names(of, r, o))
}

// names is true if a reference of an object names another, by whatever version.
func names(of fakeapi.Object, r metav1.OwnerReference, o fakeapi.Object) bool {
	group, _, grouped := strings.Cut(r.APIVersion, "/")
	if !grouped {
		group = ""
	}
	return r.UID == o.UID && group == o.Resource.Group && r.Kind == o.Resource.Kind && r.Name == o.Name &&
		(o.Namespace == "" || o.Namespace == of.Namespace)
}

// alive is true if a reference names an object that exists and does not wait for its dependents.
func (j *judge) alive(of fakeapi.Object, r metav1.OwnerReference) bool {
	o := j.objects[r.UID]
	return o != nil && names(of, r, o.Object) && !j.waited[r.UID]
}

// dependents returns the objects that name another, and that nobody has deleted.
func (j *judge) dependents(of fakeapi.Object) (all []*standing) {
	for _, d := range j.objects {
		if d.DeletionTimestamp == nil && slices.ContainsFunc(d.OwnerReferences, func(r metav1.OwnerReference) bool { return names(d.Object, r, of) }) {
			all = append(all, d)
		}
	}
	return all
}

func (s *standing) blocks(owner types.UID) bool {
	return slices.ContainsFunc(s.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.UID == owner && r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion
	})
}

// atRest judges the remaining objects when nothing fails and the collector is at rest. Every defined resource is served.
func (j *judge) atRest(s *fakeapi.Server) {
	j.t.Helper()
	served := s.Resources()
	// resolve says whether a reference's kind is served, and can own the object.
	resolve := func(of *standing, r metav1.OwnerReference) bool {
		for _, res := range served {
			if r.Kind != res.Kind || !slices.ContainsFunc(res.Versions, func(v string) bool { return r.APIVersion == strings.TrimPrefix(res.Group+"/"+v, "/") }) {
				continue
			}
			if !res.Namespaced || of.Namespace != "" {
				return true
			}
			j.counts["otherScope"]++
		}
		return false
	}
	for _, o := range j.objects {
		living, dangling := 0, 0
		for _, r := range o.OwnerReferences {
			if !resolve(o, r) {
				continue
			}
			if j.alive(o.Object, r) {
				living++
			} else if j.objects[r.UID] == nil || !names(o.Object, r, j.objects[r.UID].Object) {
				dangling++
			}
		}
		switch {
		case slices.Contains(o.Finalizers, metav1.FinalizerOrphanDependents):
			j.t.Errorf("the orphaning of %s %s has not ended", o.Resource.Name, o.Name)
		case slices.Contains(o.Finalizers, metav1.FinalizerDeleteDependents):
			if !j.held(o) {
				j.t.Errorf("the foreground deletion of %s %s has not ended, and nothing blocks it", o.Resource.Name, o.Name)
			}
			j.counts["held"]++
		case dangling > 0 && dangling == len(o.OwnerReferences):
			j.t.Errorf("%s %s is left, and has no owner any more", o.Resource.Name, o.Name)
		case dangling > 0 && living > 0:
			j.t.Errorf("%s %s still names an owner that is gone, beside one that is not", o.Resource.Name, o.Name)
		case dangling > 0:
			j.counts["keptByUnknown"]++
		}
	}
	j.settled = j.seen
	clear(j.lied)
}

// held is true if something may block an object in foreground deletion: an object that names it, by whatever kind.
func (j *judge) held(o *standing) bool {
	for _, d := range j.objects {
		if d.blocks(o.UID) {
			return true
		}
	}
	return false
}
