package graph

import "time"

// Wait says how far the foreground deletion of an object has come.
type Wait struct {
	// Since is when somebody first asked; see Graph.WaitingSince.
	Since time.Time
	// Progress grows when descendants have been deleted or have gone since somebody last
	// asked.
	Progress uint64
}

// Wait returns how far the foreground deletion of an object has come; ok is false
// if it is not in foreground deletion.
func (g *Graph) Wait(k Key) (w Wait, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.carryProgress()
	n := g.observed(k)
	if n == nil {
		return Wait{}, false
	}
	since, ok := g.waiting[n]
	return Wait{Since: since, Progress: g.progress[n]}, ok
}

// Blockers returns all objects that an object in foreground deletion waits for.
func (g *Graph) Blockers(k Key) []Dependent {
	g.mu.RLock()
	defer g.mu.RUnlock()
	o := g.observed(k)
	if o == nil || !o.rec.WaitingForDependents() || g.named[o.rec.UID] == nil {
		return nil
	}
	var all []Dependent
	for d := range g.named[o.rec.UID].dependents {
		if g.blocks(d, o) {
			all = append(all, Dependent{Key: d.key(), Record: d.rec})
		}
	}
	return all
}

// Descendants counts the objects that name an object as their owner, directly or
// through others. It takes time linear in them and their references.
func (g *Graph) Descendants(k Key) int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	o := g.observed(k)
	if o == nil {
		return 0
	}
	seen := map[*node]bool{o: true}
	for next := []*node{o}; len(next) > 0; {
		n := next[len(next)-1]
		next = next[:len(next)-1]
		nm := g.named[n.rec.UID]
		if nm == nil {
			continue
		}
		for d := range nm.dependents {
			if !seen[d] {
				seen[d] = true
				next = append(next, d)
			}
		}
	}
	return len(seen) - 1
}

// observed returns the node of a key, or nil.
func (g *Graph) observed(k Key) *node {
	t := g.tables[k.Resource]
	if t == nil {
		return nil
	}
	return g.find(t, k.UID)
}

// noteProgress notes that an object has been deleted or has gone, for every waiting
// object above it. Deleting a long chain from its end would take time quadratic in its
// length if all of them were told each time; they are told when somebody asks.
func (g *Graph) noteProgress(rec *Record) {
	if len(g.waiting) == 0 {
		clear(g.lost)
		return
	}
	for i := range rec.References {
		for o := g.nodes[rec.References[i].UID]; o != nil; o = o.twin {
			g.lost[o] = struct{}{}
		}
	}
}

// carryProgress tells every waiting object at or above one that has lost a dependent.
func (g *Graph) carryProgress() {
	next := make([]*node, 0, len(g.lost))
	for o := range g.lost {
		next = append(next, o)
	}
	for len(next) > 0 {
		n := next[len(next)-1]
		next = next[:len(next)-1]
		if _, waits := g.waiting[n]; waits {
			g.progress[n]++
		}
		for i := range n.rec.References {
			for o := g.nodes[n.rec.References[i].UID]; o != nil; o = o.twin {
				if _, told := g.lost[o]; !told {
					g.lost[o] = struct{}{}
					next = append(next, o)
				}
			}
		}
	}
	clear(g.lost)
}
