package model

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/relink"
	"github.com/reap-dev/reap/tests/bubble"
	"github.com/reap-dev/reap/tests/size"
)

var restoreSeed = flag.Uint64("model.restore", 0, "try only the restore of this seed")

// TestRestoredBackupLosesNoObject restores random backups under new UIDs while the collector is held, relinks them, and
// resumes the collector. It must delete exactly the objects whose owners were already missing in the backup.
func TestRestoredBackupLosesNoObject(t *testing.T) {
	if *restoreSeed != 0 {
		tryRestore(t, *restoreSeed)
		return
	}
	worlds := uint64(size.Of(200, 1000, 10_000))
	var all restored
	for seed := uint64(1); seed <= worlds && !t.Failed(); seed++ {
		r := tryRestore(t, seed)
		all.objects += r.objects
		all.links += r.links
		all.left += r.left
		all.collected += r.collected
		all.conflicts += r.conflicts
	}
	size.Power(t, fmt.Sprintf("worlds=%d objects=%d relinked=%d left=%d collected=%d conflicts=%d lost=0", worlds, all.objects, all.links, all.left, all.collected, all.conflicts))
	if n := int(worlds); all.links < 5*n || min(all.left, all.collected) < n/4 || all.conflicts < n/10 {
		t.Errorf("the worlds show too little: %+v", all)
	}
}

type restored struct{ objects, links, left, collected, conflicts int }

// saved is an object of a backup.
type saved struct {
	kind            *kind
	namespace, name string
	uid             types.UID // in the backup
	refs            []graph.Reference
	owners          []int // the objects that the references mean; -1 for one that is missing
}

func tryRestore(t *testing.T, seed uint64) (done restored) {
	bubble.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 3))
		m := world{workers: 2, checkEvery: 50}.start()
		defer m.close()
		err := restore(m, r, backupOf(r), &done)
		if err = errors.Join(m.wrong, err); err != nil {
			t.Errorf("%v\n(again: -run TestRestoredBackupLosesNoObject -model.restore=%d)", err, seed)
		}
	})
	return done
}

// backupOf draws a backup: chains, several owners, rings, the same names in many places, references by several versions and
// kinds, and now and then an owner that no longer existed.
func backupOf(r *rand.Rand) (all []saved) {
	taken := map[nameKey]bool{}
	for range 2 + r.IntN(30) {
		k := []*kind{alphas, alphas, betas, betas, gammas, shadows}[r.IntN(6)]
		s := saved{kind: k, name: fmt.Sprint("x", r.IntN(8)), uid: types.UID(fmt.Sprint("old-", len(all)))}
		if k.Namespaced {
			s.namespace = []string{"m", "n"}[r.IntN(2)]
		}
		if at := (nameKey{k.storage, s.namespace, s.name}); !taken[at] {
			taken[at] = true
			all = append(all, s)
		}
	}
	ring := r.IntN(3) == 0
	for i := range all {
		s := &all[i]
		if s.kind == shadows { // nobody collects it
			continue
		}
		for range r.IntN(4) {
			o := r.IntN(len(all))
			if o > i && !ring {
				continue
			}
			owner := all[o]
			if owner.kind.Namespaced && owner.namespace != s.namespace || slices.Contains(s.owners, o) {
				continue
			}
			named := owner.kind
			if named == betas && r.IntN(4) == 0 {
				named = mirrors
			}
			s.refs = append(s.refs, graph.Reference{
				APIVersion: apiVersion(named, named.Versions[r.IntN(len(named.Versions))]), Kind: named.Kind, Name: owner.name, UID: owner.uid,
				BlockOwnerDeletion: graph.Flag(r.IntN(3)),
			})
			s.owners = append(s.owners, o)
		}
		if r.IntN(15) == 0 {
			s.refs = append(s.refs, graph.Reference{APIVersion: apiVersion(gammas, "v1"), Kind: gammas.Kind, Name: "nobody", UID: types.UID(fmt.Sprint("gone-", i))})
			s.owners = append(s.owners, -1)
		}
	}
	return all
}

func apiVersion(k *kind, version string) string {
	if k.Group == "" {
		return version
	}
	return k.Group + "/" + version
}

// restore simulates a restore: the collector is held, and the objects are created in any order, some of them not at all.
func restore(m *model, r *rand.Rand, backup []saved, done *restored) error {
	m.apply(action{op: opHalt})
	partial := r.IntN(3) == 0
	there := map[int]types.UID{}
	busy := func() { // concurrent events and work
		for range r.IntN(4) {
			k := allKinds[r.IntN(len(allKinds))]
			m.apply([]action{{op: opDeliver, kind: k}, {op: opResync}, {op: opRelist, kind: k, n: r.IntN(4)}, {op: opSweep, kind: k}}[r.IntN(4)])
			if keys := sortedKeys(m.queue); len(keys) > 0 {
				m.apply(action{op: opBegin, key: keys[r.IntN(len(keys))], n: r.IntN(2)})
			}
			m.apply(action{op: opStep, n: r.IntN(2)})
		}
	}
	for _, i := range r.Perm(len(backup)) {
		s := backup[i]
		if partial && r.IntN(10) == 0 {
			continue
		}
		there[i] = types.UID(fmt.Sprint("new-", i))
		if !m.apply(action{op: opCreate, kind: s.kind, uid: there[i], namespace: s.namespace, name: s.name, refs: s.refs}) {
			return fmt.Errorf("object %d cannot be created", i)
		}
		done.objects++
		busy()
	}
	plan := planOf(m)
	done.left += len(plan.Left)
	for _, level := range plan.Levels {
		for _, c := range level {
			done.links += len(c.Links)
			busy()
			if r.IntN(8) == 0 { // somebody changes the object
				if o := m.server.objects[c.Object.Key.UID]; o != nil {
					m.apply(action{op: opEdit, uid: o.uid, refs: o.refs})
				}
			}
			done.conflicts += rewrite(m, c)
		}
	}
	if again := planOf(m); len(again.Levels) > 0 {
		return fmt.Errorf("after it there is still something to relink: %v", again.Levels)
	}
	m.apply(action{op: opGoOn})
	for range r.IntN(20) {
		busy()
	}
	m.settle()
	m.elapse()
	return judgeRestored(m, backup, there, done)
}

// planOf makes the plan of reap relink from a list of the server's objects.
func planOf(m *model) relink.Plan {
	g := graph.New()
	g.SetCatalog(catalogs[len(catalogs)-1], m.now)
	for _, k := range allKinds {
		if !k.Monitored {
			continue
		}
		g.AddResource(k.GroupResource(), k.GroupKind(), m.now)
		for _, uid := range slices.Sorted(maps.Keys(m.server.objects)) {
			if o := m.server.objects[uid]; o.storage == k.storage {
				g.Upsert(k.GroupResource(), o.record(), m.now)
			}
		}
		g.Listed(k.GroupResource(), m.now)
	}
	read := func(o *graph.OwnerView) *object {
		at, _ := m.server.get(kindOf(o.Resource.GroupResource()), o.Resource.Versions[0], o.At.Namespace, o.At.Name)
		return at
	}
	for _, n := range g.Objects() {
		v, _ := g.View(n.Key)
		for i := range v.Owners {
			o := &v.Owners[i]
			fact := graph.Fact{State: graph.Absent}
			if at := read(o); at != nil && at.uid == o.Reference.UID {
				fact = graph.Fact{State: graph.Present, Seen: m.now}
			}
			g.Learn(o.Reference.UID, o.At, fact)
		}
	}
	dangling := relink.Find(relink.Input{Graph: g, Now: m.now})
	occupants := map[graph.Coordinates]relink.Occupant{}
	for i := range dangling {
		if at := read(&dangling[i].Owner); at != nil {
			occupants[dangling[i].Owner.At] = relink.Occupant{Record: at.record()}
		}
	}
	return relink.Resolve(g, dangling, occupants)
}

// rewrite makes a change as reap relink does, and returns how often the object had to be read again.
func rewrite(m *model, c relink.Change) (conflicts int) {
	rec := c.Object.Record
	for {
		refs, applied := relink.Rewrite(rec.References, c.Links)
		if applied == 0 {
			return conflicts
		}
		o, out := m.server.current(kindOf(c.Object.Key.Resource), rec)
		switch {
		case out == ok:
			m.apply(action{op: opEdit, uid: o.uid, refs: refs})
			return conflicts
		case out != conflict || o.uid != rec.UID:
			m.fail("%s has gone while the collector was held", rec.UID)
			return conflicts
		}
		conflicts++
		rec = o.record()
	}
}

// judgeRestored compares the objects that are left with what the references of the backup meant.
func judgeRestored(m *model, backup []saved, there map[int]types.UID, done *restored) error {
	gone := map[int]bool{}
	for again := true; again; {
		again = false
		for i := range there {
			if gone[i] || len(backup[i].owners) == 0 || slices.ContainsFunc(backup[i].owners, func(o int) bool { return o >= 0 && there[o] != "" && !gone[o] }) {
				continue
			}
			gone[i], again = true, true
		}
	}
	done.collected += len(gone)
	var errs []error
	for i, uid := range there {
		if exists := m.server.objects[uid] != nil; exists == gone[i] {
			errs = append(errs, fmt.Errorf("%s %s/%s exists: %v, its owners in the backup: %v", backup[i].kind, backup[i].namespace, backup[i].name, exists, backup[i].owners))
		}
	}
	return errors.Join(errs...)
}
