package apiserver

import (
	"context"
	"net/http"
	"sync"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
)

// patience is how long an in-process call waits for users at most. It limits how much
// continuous requests of users slow down the collector and the controllers.
const patience = 10 * time.Millisecond

// courtesy lets requests of users go first. In-process callers keep all cores busy, and
// requests from the network would have to queue behind them.
type courtesy struct {
	// mu protects what follows.
	mu    sync.Mutex
	users int           // requests from the network that are being answered
	none  chan struct{} // closed when users is 0 again; nil while it is
}

// counting counts requests from the network, except long-running ones such as watches.
func (u *courtesy) counting(h http.Handler, c *genericapiserver.Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(callerKey{}) == nil {
			// A malformed request is refused by a later handler.
			if info, err := c.RequestInfoResolver.NewRequestInfo(r); err == nil && !c.LongRunningFunc(r, info) {
				u.came()
				defer u.went()
			}
		}
		h.ServeHTTP(w, r)
	})
}

func (u *courtesy) came() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.users++; u.users == 1 {
		u.none = make(chan struct{})
	}
}

func (u *courtesy) went() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.users--; u.users == 0 {
		close(u.none)
		u.none = nil
	}
}

// letUsersGoFirst returns when no user waits for an answer, after patience, or when ctx
// is cancelled.
func (u *courtesy) letUsersGoFirst(ctx context.Context) {
	u.mu.Lock()
	none := u.none
	u.mu.Unlock()
	if none == nil {
		return
	}
	enough := time.NewTimer(patience)
	defer enough.Stop()
	select {
	case <-none:
	case <-enough.C:
	case <-ctx.Done():
	}
}
