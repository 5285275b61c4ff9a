//go:build race

package bubble

import (
	"runtime"
	"sync"
)

var sharing struct {
	mu    sync.Mutex
	tests int
	cores int // before the first of them
}

// share has goroutines share one core until every caller has called what it returned.
func share() (end func()) {
	sharing.mu.Lock()
	defer sharing.mu.Unlock()
	if sharing.tests == 0 {
		sharing.cores = runtime.GOMAXPROCS(1)
	}
	sharing.tests++
	return func() {
		sharing.mu.Lock()
		defer sharing.mu.Unlock()
		sharing.tests--
		if sharing.tests == 0 {
			runtime.GOMAXPROCS(sharing.cores)
		}
	}
}
