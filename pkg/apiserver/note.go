package apiserver

import (
	"bytes"
	"fmt"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/healthz"
)

// Note is a check in /readyz that always succeeds and reports the state of a part.
type Note struct {
	// Name is the name of the check. It labels metrics, so it must be constant.
	Name string
	// Text returns what /readyz?verbose shows in brackets after the name; "" for nothing.
	// It is called at each request. known is false for a caller without credentials, who
	// must not see names of objects.
	Text func(known bool) string
}

const readyz = "/readyz"

func (n Note) check() healthz.HealthChecker {
	return healthz.NamedCheck(n.Name, func(*http.Request) error { return nil })
}

// withNotes adds the texts of the notes to the answers of /readyz. For a check that
// succeeds, the handler of health checks itself prints only the name.
func withNotes(next http.Handler, notes []Note) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != readyz {
			next.ServeHTTP(w, r)
			return
		}
		u, ok := request.UserFrom(r.Context())
		next.ServeHTTP(&noting{ResponseWriter: w, notes: notes, known: ok && u.GetName() != user.Anonymous}, r)
	})
}

// noting writes notes into the lines of their checks. The handler writes all its
// lines at once.
type noting struct {
	http.ResponseWriter
	notes []Note
	known bool
}

func (w *noting) Write(p []byte) (int, error) {
	noted := p
	for _, n := range w.notes {
		line := fmt.Appendf(nil, "[+]%s ok\n", n.Name)
		if !bytes.Contains(noted, line) {
			continue
		}
		if text := n.Text(w.known); text != "" {
			noted = bytes.Replace(noted, line, fmt.Appendf(nil, "[+]%s (%s) ok\n", n.Name, text), 1)
		}
	}
	if _, err := w.ResponseWriter.Write(noted); err != nil {
		return 0, err
	}
	return len(p), nil
}
