package apiserver

import (
	"bytes"
	"fmt"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/healthz"
)

// Note is a part of the process that /readyz shows as a check of its own and that
// never keeps the server from being ready.
type Note struct {
	// Name is the name of the check. It labels metrics: what changes goes into Text.
	Name string
	// Text is asked at each request for what /readyz?verbose says after the name, in
	// brackets; nothing if it is empty. known is false for a caller without
	// credentials, who is not to be told names.
	Text func(known bool) string
}

const readyz = "/readyz"

func (n Note) check() healthz.HealthChecker {
	return healthz.NamedCheck(n.Name, func(*http.Request) error { return nil })
}

// withNotes adds what the notes have to say to the answers of /readyz. The health
// checks' own handler has only a name to print for a check that succeeds.
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
