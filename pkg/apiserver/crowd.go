package apiserver

import "sync"

// crowd counts requests that are being answered. It may be used concurrently.
type crowd struct {
	mu   sync.Mutex // protects what follows
	n    int
	ever int           // how many have come
	none chan struct{} // closed when n is 0 again; nil while it is
}

func (c *crowd) came() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ever++
	if c.n++; c.n == 1 {
		c.none = make(chan struct{})
	}
}

func (c *crowd) went() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n == 0 {
		close(c.none)
		c.none = nil
	}
}

// gone returns a channel that is closed when all of now and all who come meanwhile have gone; nil if nobody is there. ever is how many
// have come so far.
func (c *crowd) gone() (left <-chan struct{}, ever int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.none, c.ever
}
