package graph

import "time"

// Wait says how far the foreground deletion of an object has come.
type Wait struct {
	// Since is when somebody first asked; see Graph.WaitingSince.
	Since time.Time
	// Progress counts how often a descendant has been deleted or has gone since.
	Progress uint64
}

// Wait returns how far the foreground deletion of an object has come; ok is false
// if it is not in foreground deletion.
func (g *Graph) Wait(k Key) (w Wait, ok bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
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

// noteProgress tells every waiting object above one that has been deleted or has
// gone.
func (g *Graph) noteProgress(rec *Record) {
	if len(g.waiting) == 0 {
		return
	}
	seen := map[*node]bool{}
	for next := []*Record{rec}; len(next) > 0; {
		r := next[len(next)-1]
		next = next[:len(next)-1]
		for i := range r.References {
			for o := g.nodes[r.References[i].UID]; o != nil; o = o.twin {
				if seen[o] {
					continue
				}
				seen[o] = true
				if _, waits := g.waiting[o]; waits {
					g.progress[o]++
				}
				next = append(next, o.rec)
			}
		}
	}
}
