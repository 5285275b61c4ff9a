package apiserver

import (
	"net/http"
	"sync"
	"time"
)

// farewellTime is how long clients have to read the last answer, and that the server stops, before it closes their connections.
const farewellTime = 100 * time.Millisecond

// farewell closes connections without requests soon after the server has stopped listening.
//
// An HTTP/2 server gives the client of an idle connection a second to read that it will be closed. A request that the client
// sends meanwhile is not lost, but sent again over another connection. Where no other server could take it, that does not help,
// and kube-apiserver's own clients, which always have a connection, would let every stop take that second.
type farewell struct {
	requests crowd
	once     sync.Once
}

// to handles requests with h, and remembers their server.
func (f *farewell) to(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// In-process calls have no server.
		if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok {
			f.requests.came()
			defer f.requests.went()
			f.once.Do(func() { server.RegisterOnShutdown(func() { f.bid(server) }) })
		}
		h.ServeHTTP(w, r)
	})
}

// bid waits until no request has been there for farewellTime, in which the last answer is sent, too. Then it closes what connections are
// left. As long as a request remains, such as one without an end, the server waits for it as it does by itself.
func (f *farewell) bid(server *http.Server) {
	for before := -1; ; {
		left, ever := f.requests.gone()
		if left != nil {
			<-left
			continue
		}
		if ever == before {
			break
		}
		before = ever
		time.Sleep(farewellTime)
	}
	_ = server.Close() // it has closed its listener, and says so; there are no other errors
}
