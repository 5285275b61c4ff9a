package apiserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
)

// The test uses the real handler of health checks, whose output withNotes edits.
func TestNotesAreWrittenIntoTheLinesOfReadyz(t *testing.T) {
	text := ""
	ready := true
	notes := []Note{{Name: "part", Text: func(known bool) string {
		if text != "" && !known {
			return "1 thing"
		}
		return text
	}}}
	checks := mux.NewPathRecorderMux("test")
	healthz.InstallReadyzHandler(checks, healthz.PingHealthz, notes[0].check(), healthz.NamedCheck("other", func(*http.Request) error {
		if !ready {
			return context.Canceled
		}
		return nil
	}))
	h := withNotes(checks, notes)
	get := func(path, name string) (int, string) {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: name})))
		return w.Code, w.Body.String()
	}
	for _, c := range []struct {
		what, text, path, name string
		unready                bool
		code                   int
		want                   string
	}{
		{what: "nothing to say", path: "/readyz?verbose", code: 200, want: "[+]ping ok\n[+]part ok\n[+]other ok\nreadyz check passed\n"},
		{what: "something to say", text: "cannot list: a.b", path: "/readyz?verbose", code: 200, want: "[+]ping ok\n[+]part (cannot list: a.b) ok\n[+]other ok\nreadyz check passed\n"},
		{what: "nobody in particular asks", text: "cannot list: a.b", path: "/readyz?verbose", name: user.Anonymous, code: 200, want: "[+]ping ok\n[+]part (1 thing) ok\n[+]other ok\nreadyz check passed\n"},
		{what: "not verbose", text: "cannot list: a.b", path: "/readyz", code: 200, want: "ok"},
		{what: "the check alone", text: "cannot list: a.b", path: "/readyz/part", code: 200, want: "ok"},
		{what: "another part is not ready", text: "cannot list: a.b", path: "/readyz", unready: true, code: 500, want: "[+]ping ok\n[+]part (cannot list: a.b) ok\n[-]other failed: reason withheld\nreadyz check failed\n"},
		{what: "excluded", text: "cannot list: a.b", path: "/readyz?verbose&exclude=part", code: 200, want: "[+]ping ok\n[+]part excluded: ok\n[+]other ok\nreadyz check passed\n"},
	} {
		text, ready = c.text, !c.unready
		name := c.name
		if name == "" {
			name = "somebody"
		}
		if code, body := get(c.path, name); code != c.code || body != c.want {
			t.Errorf("%s: %d %q, want %d %q", c.what, code, body, c.code, c.want)
		}
	}
	if _, body := get("/elsewhere", "somebody"); strings.Contains(body, "part") {
		t.Errorf("another path: %q", body)
	}
}
