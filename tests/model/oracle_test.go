package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// The oracle knows the true state of the server and nothing that the collector has seen.
// It uses no code of graph or decide, only their Reference.

// verdict is the judgement of a reference.
type verdict int

const (
	// solid: the owner exists at the declared coordinates.
	solid verdict = iota
	// veto: the reference cannot be resolved or is not allowed; it keeps the object.
	veto
	// dangling: the owner does not exist there, and the collector can prove it.
	dangling
	// history: the owner does not exist there, but whether that was ever proved
	// depends on what the collector saw while the kind was served. Either outcome
	// is right. The cases are:
	//   - The kind is not served now. (A DELETED event of the owner that was delivered
	//     while this dependent was known stays final: then the reference dangles.)
	//   - The kind is served without the declared version, and was not served at all
	//     for a time: DELETED counts for every version of the kind, and the version
	//     speaks against the reference only while the kind is served.
	//   - The owner waits for its dependents and the kind is no longer served: the
	//     collector may have seen that before.
	//   - The owner itself may or may not exist, for one of these reasons.
	history
	// waiting: the owner exists there and waits for its dependents, or its wait was
	// called off within the last second.
	waiting
)

// fate is how an object ends up.
type fate int

const (
	stays fate = iota
	either
	goes
)

// facts are what the oracle judges by.
type facts struct {
	objects     map[types.UID]*object
	fates       map[types.UID]fate
	served      map[*kind]bool
	wasUnserved map[*kind]bool
	// witnessed holds, for a dependent and an owner, the coordinates at which a DELETED
	// event showed the owner.
	witnessed map[[2]types.UID]witness
	// waited reports whether an owner's wait was called off a moment ago.
	waited func(types.UID) bool
	// orphaned holds the owners that the collector has orphaned.
	orphaned  map[types.UID]*object
	forgotten map[types.UID]bool
	orphaning map[types.UID]bool
	// hidden holds the kinds that are not served though their objects may exist. ghosts
	// holds the states in which they may last have shown them.
	hidden map[*kind]bool
	ghosts []*object
	// detects is true if rings are broken. timesOut reports whether an object's
	// foreground deletion times out.
	detects  bool
	timesOut func(*object) bool
}

// witness holds the coordinates at which the graph saw an owner end while it knew the dependent.
type witness struct {
	kind            *kind
	namespace, name string
}

// judge returns the verdict on a reference of d.
func (f *facts) judge(d *object, ref graph.Reference) verdict {
	if strings.Count(ref.APIVersion, "/") > 1 {
		return veto
	}
	group, version := splitAPIVersion(ref.APIVersion)
	i := slices.IndexFunc(allKinds, func(k *kind) bool { return k.Group == group && k.Kind == ref.Kind })
	if i < 0 {
		return veto
	}
	k := allKinds[i]
	namespace := d.namespace
	if !k.Namespaced {
		namespace = ""
	} else if namespace == "" {
		return veto
	}
	owner := f.objects[ref.UID]
	there := owner != nil && owner.storage == k.storage && owner.namespace == namespace && owner.name == ref.Name
	versionServed := slices.Contains(k.Versions, version)
	switch {
	case there && f.fates[ref.UID] == stays:
		waits := versionServed && (owner.waits() || f.waited != nil && f.waited(ref.UID))
		if waits && f.served[k] {
			return waiting
		}
		if waits {
			return history
		}
		if f.served[k] && versionServed {
			return solid
		}
		return veto
	case !f.served[k]:
		if !there && f.witnessed[[2]types.UID{d.uid, ref.UID}] == (witness{k, namespace, ref.Name}) {
			return dangling
		}
		return history
	case !versionServed && f.wasUnserved[k]:
		return history
	case !versionServed:
		return veto
	case there && f.fates[ref.UID] == either:
		return history
	}
	return dangling
}

// mayDelete returns why an object may not be deleted at this moment, or nil.
func (f *facts) mayDelete(o *object) error {
	if len(o.refs) == 0 {
		return fmt.Errorf("it has no owner to lose")
	}
	if o.deleting {
		return fmt.Errorf("it is being deleted already")
	}
	for _, r := range o.refs {
		if was := f.orphaned[r.UID]; was != nil && !f.forgotten[r.UID] && f.names(o, r, was) {
			return fmt.Errorf("its owner %s %s was orphaned", r.Kind, r.UID)
		}
		if v := f.judge(o, r); v == solid || v == veto {
			return fmt.Errorf("its reference to %s %s %s is %s", r.Kind, r.Name, r.UID, [...]string{"solid", "a veto"}[v])
		}
	}
	return nil
}

// mayDrop returns why references may not be dropped at this moment, or nil.
func (f *facts) mayDrop(o *object, drop []graph.Reference) error {
	if !slices.ContainsFunc(drop, func(r graph.Reference) bool { return !f.orphaning[r.UID] }) {
		// All references to such an owner go, right or wrong, even if the orphaning is
		// called off at the last moment.
		return nil
	}
	left := 0
	for _, r := range o.refs {
		if !slices.Contains(drop, r) {
			if f.resolvable(o, r) {
				left++
			}
		} else if v := f.judge(o, r); v == solid || v == veto {
			return fmt.Errorf("its reference to %s %s %s is %s", r.Kind, r.Name, r.UID, [...]string{"solid", "a veto"}[v])
		}
	}
	if left == 0 {
		return fmt.Errorf("no reference is left that could have a solid owner")
	}
	return nil
}

// names reports whether a reference of d is right for an owner, which may be gone.
func (f *facts) names(d *object, ref graph.Reference, owner *object) bool {
	k := f.kindNamed(ref)
	if k == nil || k.storage != owner.storage || ref.Name != owner.name || ref.UID != owner.uid {
		return false
	}
	return owner.namespace == "" || owner.namespace == d.namespace
}

// kindNamed returns the kind and version that a reference declares, or nil if no
// server ever serves it.
func (f *facts) kindNamed(ref graph.Reference) *kind {
	group, version := splitAPIVersion(ref.APIVersion)
	for _, k := range allKinds {
		if k.Group == group && k.Kind == ref.Kind && slices.Contains(k.Versions, version) {
			return k
		}
	}
	return nil
}

// blocks reports whether d blocks an owner that waits for its dependents, by a reference
// for which the function there returns true. A reference to an unserved kind may be
// right, but not about an owner in another namespace.
func (f *facts) blocks(d, owner *object, there func(graph.Reference) bool) bool {
	return slices.ContainsFunc(d.refs, func(r graph.Reference) bool {
		if r.UID != owner.uid || r.BlockOwnerDeletion != graph.True || owner.namespace != "" && owner.namespace != d.namespace || !there(r) {
			return false
		}
		k := f.kindNamed(r)
		return k == nil || !f.served[k] || f.names(d, r, owner)
	})
}

// atRest returns the work that is left on the server; there must be none when the
// collector rests. It looks only at existing objects. Wrong deletions are found by
// judging every write.
func (f *facts) atRest() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	always := func(graph.Reference) bool { return true }
	if f.detects {
		for _, w := range f.ringed(func(k *kind) bool { return f.served[k] }) {
			bad("%s and %s wait for each other, directly or through others", w.uid, w.ref.UID)
		}
	}
	for uid, o := range f.objects {
		if !f.collectable(o.storage) {
			continue
		}
		switch {
		case o.deleting && o.orphan:
			if !f.holds() {
				bad("%s is still to be orphaned", uid)
			}
			continue
		case o.waits():
			blocks := func(d *object) bool { return f.blocks(d, o, always) }
			blocked := slices.ContainsFunc(slices.Collect(maps.Values(f.objects)), blocks) || slices.ContainsFunc(f.ghosts, func(d *object) bool { return f.isHidden(d.storage) && blocks(d) })
			switch {
			case !blocked:
				bad("%s waits for its dependents and nothing blocks it", uid)
			case f.timesOut(o):
				bad("%s waits for its dependents for ever", uid)
			}
			continue
		case o.deleting || len(o.refs) == 0:
			continue
		}
		count := map[verdict]int{}
		unwatched := false // whether a solid owner is known only from reads
		for _, r := range o.refs {
			v := f.judge(o, r)
			count[v]++
			unwatched = unwatched || v == solid && !f.collectable(f.objects[r.UID].storage)
		}
		switch left := count[dangling] + count[waiting]; {
		case left == len(o.refs):
			bad("%s is still there and nothing keeps it", uid)
		case unwatched && count[veto]+count[history] > 0:
			// References with a veto or to an unserved kind are not looked at again. The
			// state in which the unwatched owner was read may be over: it waited, and its
			// wait was called off.
		case count[solid] > 0 && left > 0:
			bad("%s has a solid owner and still names %d that are none: %+v", uid, left, o.refs)
		}
	}
	return errs
}

// holds reports whether there may be dependents that nobody can list.
func (f *facts) holds() bool {
	return slices.ContainsFunc(allKinds, func(k *kind) bool { return k.Monitored && f.hidden[k] })
}

// isHidden reports whether a kind that shows a storage is hidden.
func (f *facts) isHidden(storage string) bool {
	return slices.ContainsFunc(kindsOf(storage), func(k *kind) bool { return f.hidden[k] })
}

// resolvable reports whether a reference can have had a solid owner at any time. A
// reference that has just lost its owner, or its kind, may still be believed solid.
func (f *facts) resolvable(o *object, ref graph.Reference) bool {
	i := slices.IndexFunc(allKinds, func(k *kind) bool {
		return slices.ContainsFunc(k.Versions, func(v string) bool { return reference(k, v, object{}).APIVersion == ref.APIVersion }) && k.Kind == ref.Kind
	})
	return i >= 0 && (o.namespace != "" || !allKinds[i].Namespaced)
}

// collectable reports whether the collector can see and delete the objects of a storage.
func (f *facts) collectable(storage string) bool {
	return slices.ContainsFunc(allKinds, func(k *kind) bool { return k.storage == storage && k.Monitored && f.served[k] })
}

// wasCollectable reports whether it ever could.
func (f *facts) wasCollectable(storage string) bool {
	return slices.ContainsFunc(allKinds, func(k *kind) bool { return k.storage == storage && k.Monitored })
}

// settle computes the fates of all objects: how they end up when nothing but collection happens any more.
func (f *facts) settle() {
	f.fates = make(map[types.UID]fate, len(f.objects))
	for changed := true; changed; {
		changed = false
		for uid, o := range f.objects {
			if next := f.fateOf(o); next > f.fates[uid] {
				f.fates[uid] = next
				changed = true
			}
		}
	}
}

func (f *facts) fateOf(o *object) fate {
	// An object that somebody holds, or has deleted, exists until its finalizer goes.
	if o.held || o.deleting || !f.garbage(o, history) {
		return stays
	}
	switch {
	case f.collectable(o.storage) && f.garbage(o, dangling):
		return goes
	case f.wasCollectable(o.storage):
		return either
	}
	return stays
}

// garbage reports whether an object has references and each of them is dangling or has the verdict asGoodAs.
func (f *facts) garbage(o *object, asGoodAs verdict) bool {
	for _, r := range o.refs {
		if v := f.judge(o, r); v != dangling && v != asGoodAs {
			return false
		}
	}
	return len(o.refs) > 0
}

// compare compares the server's objects with the expected result of the users' actions
// alone, and returns every difference.
func (f *facts) compare(real map[types.UID]*object) (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	f.settle()
	for uid, want := range f.objects {
		got := real[uid]
		switch fate := f.fates[uid]; {
		case got == nil && fate == stays:
			bad("%s is gone and should not be", uid)
		case got != nil && fate == goes:
			bad("%s is still there and nothing owns it", uid)
		case got == nil:
		default:
			f.compareReferences(want, got, bad)
			held := (want.held || want.foreground || want.orphan) && !want.deleting && f.collectable(want.storage)
			if held && f.garbage(want, dangling) && !got.deleting {
				bad("%s is held, nothing owns it, and nobody deletes it", uid)
			}
		}
	}
	for uid := range real {
		if f.objects[uid] == nil {
			bad("%s should have been gone: a user deleted it", uid)
		}
	}
	return errs
}

// compareReferences allows only dangling references to be missing from those that users
// declared. It requires that they are missing if a solid owner remains. If none remains,
// references that were dropped earlier, beside an owner that has ended since, stay
// dropped.
func (f *facts) compareReferences(want, got *object, bad func(string, ...any)) {
	left := got.refs
	hasSolid := slices.ContainsFunc(want.refs, func(r graph.Reference) bool { return f.judge(want, r) == solid })
	must := hasSolid && !got.deleting && f.collectable(want.storage)
	for _, r := range want.refs {
		kept := len(left) > 0 && left[0] == r
		if kept {
			left = left[1:]
		}
		switch v := f.judge(want, r); {
		case !kept && (v == solid || v == veto):
			bad("%s has lost its reference to %s %s %s", want.uid, r.Kind, r.Name, r.UID)
		case kept && v == dangling && must:
			bad("%s has a solid owner and still names %s %s %s", want.uid, r.Kind, r.Name, r.UID)
		}
	}
	if len(left) > 0 {
		bad("%s has references that nobody gave it: %+v", want.uid, left)
	}
}
