package graph

// noteTerminating keeps the list of objects that have been deleted, are still there, and do not wait for the collector.
func (g *Graph) noteTerminating(n *node) {
	if n.rec.Deleting && !n.rec.collecting() {
		g.terminating[n] = struct{}{}
		g.terminatingRoom.needs(len(g.terminating))
		return
	}
	g.forgetTerminating(n)
}

// forgetTerminating takes an object off that list.
func (g *Graph) forgetTerminating(n *node) {
	delete(g.terminating, n)
	g.terminating = trim(g.terminating, &g.terminatingRoom)
}

// Terminating returns the objects that have been deleted and are still there, but for those that Collecting returns: a finalizer
// that is not the collector's holds them, or a grace period.
func (g *Graph) Terminating() []Node {
	g.mu.RLock()
	defer g.mu.RUnlock()
	all := make([]Node, 0, len(g.terminating))
	for n := range g.terminating {
		all = append(all, n.outside())
	}
	return all
}
