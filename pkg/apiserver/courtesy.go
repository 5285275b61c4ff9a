package apiserver

import (
	"context"
	"net/http"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
)

// patience is how long an in-process call waits for users at most. It limits how much
// continuous requests of users slow down the collector and the controllers.
const patience = 10 * time.Millisecond

// courtesy lets requests of users go first. In-process callers keep all cores busy, and
// requests from the network would have to queue behind them.
type courtesy struct {
	users crowd
}

// counting counts requests from the network, except long-running ones such as watches.
func (u *courtesy) counting(h http.Handler, c *genericapiserver.Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(callerKey{}) == nil {
			// A malformed request is refused by a later handler.
			if info, err := c.RequestInfoResolver.NewRequestInfo(r); err == nil && !c.LongRunningFunc(r, info) {
				u.users.came()
				defer u.users.went()
			}
		}
		h.ServeHTTP(w, r)
	})
}

// letUsersGoFirst returns when no user waits for an answer, after patience, or when ctx
// is cancelled.
func (u *courtesy) letUsersGoFirst(ctx context.Context) {
	none, _ := u.users.gone()
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
