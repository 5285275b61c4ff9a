package graph

import "time"

// Wait says for how long an object in foreground deletion has waited.
type Wait struct {
	// Since is when an event first showed it waiting.
	Since time.Time
	// Progress is the latest of its deletion, the deletion of a dependent and the moment
	// a dependent went, of those that name it directly. Dependents that were created after its
	// deletion do not count: a controller that keeps creating them would block it forever.
	Progress time.Time
}

// Survey is what counting everything below an object has found, without objects that were
// created after its deletion.
type Survey struct {
	// Descendants counts the objects that name it as their owner, directly or through
	// others.
	Descendants int
	// Progress is when one of those was last deleted or last went.
	Progress time.Time
}

// noteWait keeps the list of objects that wait for the collector.
func (g *Graph) noteWait(n *node, old *Record, now time.Time) {
	rec := n.rec
	waited := old != nil && old.WaitingForDependents()
	if (waited || rec.WaitingForDependents()) && changed(old, rec) {
		g.waitingChanged = true
	}
	switch {
	case !rec.collecting():
		g.forgetWait(n)
	case g.collecting[n] == nil || rec.WaitingForDependents() && !waited:
		g.collecting[n] = &Wait{Since: now, Progress: g.deletedAt(n, now)}
	}
}

// forgetWait takes an object off the list.
func (g *Graph) forgetWait(n *node) {
	delete(g.collecting, n)
	if len(g.collecting) == 0 {
		clear(g.losses)
	}
}

// deletedAt returns when an object was deleted, or the last of the dependents that block
// it. Timestamps of the wall clock are turned into elapsed time here, once.
func (g *Graph) deletedAt(n *node, now time.Time) time.Time {
	last := elapsed(n.rec.DeletedAt, now)
	o := g.owners[n.rec.UID]
	if o == nil || n.blocking == 0 {
		return last
	}
	for d := range o.dependents.all {
		if !d.rec.Deleting || d.rec.follows(n.rec) {
			continue
		}
		t := elapsed(d.rec.DeletedAt, now)
		if !t.After(last) {
			continue
		}
		for i := range d.rec.References {
			if g.blocks(d, &d.rec.References[i], n) {
				last = t
				break
			}
		}
	}
	return last
}

// noteLoss notes at the owners of an object that it was deleted, or has gone, at a
// time. Owners further up learn of it when they are surveyed: telling all of them each
// time would make a chain cost time quadratic in its length.
func (g *Graph) noteLoss(rec *Record, at time.Time) {
	if len(g.collecting) == 0 {
		return
	}
	for i := range rec.References {
		g.noteLossOf(rec, &rec.References[i], at)
	}
}

// noteLossOf notes a loss at the owner that one reference of an object names.
func (g *Graph) noteLossOf(rec *Record, r *Reference, at time.Time) {
	for o := g.nodes[r.UID]; o != nil; o = o.twin {
		if rec.follows(o.rec) {
			continue
		}
		if at.After(g.losses[o]) {
			g.losses[o] = at
		}
		if w := g.collecting[o]; w != nil && at.After(w.Progress) {
			w.Progress = at
		}
	}
}

// carryLoss tells an owner of what a dependent has lost, as long as there is a way up.
func (g *Graph) carryLoss(n *node, r *Reference) {
	if at, lost := g.losses[n]; lost {
		g.noteLossOf(n.rec, r, at)
	}
}

// Survey counts what is below an object. It takes time linear in that and its
// references; ok is false if no monitor shows the object.
func (g *Graph) Survey(k Key) (s Survey, ok bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	o := g.observed(k)
	if o == nil {
		return Survey{}, false
	}
	seen := map[*node]struct{}{o: {}}
	for next := []*node{o}; len(next) > 0; {
		n := next[len(next)-1]
		next = next[:len(next)-1]
		if at := g.losses[n]; at.After(s.Progress) {
			s.Progress = at
		}
		below := g.owners[n.rec.UID]
		if below == nil {
			continue
		}
		for d := range below.dependents.all {
			if _, known := seen[d]; !known && !d.rec.follows(o.rec) {
				seen[d] = struct{}{}
				next = append(next, d)
			}
		}
	}
	s.Descendants = len(seen) - 1
	return s, true
}

// Collecting returns the objects that have been deleted and stay for the collector:
// for their dependents to go, or to be orphaned.
func (g *Graph) Collecting() []Node {
	g.mu.RLock()
	defer g.mu.RUnlock()
	all := make([]Node, 0, len(g.collecting))
	for n := range g.collecting {
		all = append(all, n.outside())
	}
	return all
}
