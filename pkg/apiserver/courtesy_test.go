package apiserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"

	"github.com/reap-dev/reap/tests/bubble"
)

// counted returns a handler that answers when answer is closed.
func counted(u *courtesy, answer <-chan struct{}) http.Handler {
	c := &genericapiserver.Config{
		RequestInfoResolver: &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")},
		LongRunningFunc:     genericfilters.BasicLongRunningRequestCheck(sets.NewString("watch"), sets.NewString()),
	}
	return u.counting(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-answer }), c)
}

// waited is how long an in-process call would be held up.
func waited(ctx context.Context, u *courtesy) time.Duration {
	began := time.Now()
	u.letUsersGoFirst(ctx)
	return time.Since(began)
}

func TestUsersGoFirst(t *testing.T) {
	const configMaps = "/api/v1/namespaces/a/configmaps"
	for _, c := range []struct {
		name      string
		requests  []string
		inProcess bool
		answered  time.Duration // after this
		want      time.Duration
	}{
		{name: "nobody asks", want: 0},
		{name: "a user waits for an answer", requests: []string{configMaps}, answered: 2 * time.Millisecond, want: 2 * time.Millisecond},
		{name: "two users", requests: []string{configMaps, configMaps + "/b"}, answered: 2 * time.Millisecond, want: 2 * time.Millisecond},
		{name: "a user waits for long", requests: []string{configMaps}, answered: time.Second, want: patience},
		{name: "a watch", requests: []string{configMaps + "?watch=true"}, answered: time.Hour, want: 0},
		{name: "a call of our own", requests: []string{configMaps}, inProcess: true, answered: time.Hour, want: 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var u courtesy
				answer := make(chan struct{})
				h := counted(&u, answer)
				for _, url := range c.requests {
					r := httptest.NewRequest(http.MethodGet, url, nil)
					if c.inProcess {
						r = r.WithContext(context.WithValue(r.Context(), callerKey{}, &user.DefaultInfo{Name: "collector"}))
					}
					go h.ServeHTTP(httptest.NewRecorder(), r)
				}
				synctest.Wait()
				time.AfterFunc(c.answered, func() { close(answer) })
				if got := waited(t.Context(), &u); got != c.want {
					t.Errorf("waited %s, want %s", got, c.want)
				}
				time.Sleep(c.answered) // of the bubble's clock
				synctest.Wait()
				if got := waited(t.Context(), &u); got != 0 {
					t.Errorf("when all had been answered: waited %s", got)
				}
			})
		})
	}
}

func TestNoCourtesyAfterTheEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var u courtesy
		u.users.came()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got := waited(ctx, &u); got != 0 {
			t.Errorf("waited %s", got)
		}
	})
}
