package observe

import "sync"

// paging knows how far the lists of a monitor have come. A list that breaks off between two
// pages starts from the beginning: pages that are read once more are no progress.
type paging struct {
	mu sync.Mutex
	// pages is how many pages of the list under way have come, and furthest of any since
	// one was read to its end.
	pages, furthest int
}

// page notes a page and says whether it is progress.
func (p *paging) page(first, last bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first {
		p.pages = 0
	}
	p.pages++
	progress := last || p.pages > p.furthest
	p.furthest = max(p.furthest, p.pages)
	if last {
		p.furthest = 0
	}
	return progress
}
