package datastore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestErrorsDoNotTellThePassword(t *testing.T) {
	inner := errors.New("inner")
	for endpoint, tc := range map[string]struct{ err, want string }{
		"postgres://user:hunter2@db:1/x":                  {`parse "postgres://user:hunter2@db:1/x"`, `parse "postgres://user:…@db:1/x"`},
		"postgres://user:hun%74er2@db/x":                  {"hun%74er2 and hunter2", "… and …"},
		"mysql://user:p@ss:w@tcp(db)/x":                   {"user:p@ss:w is wrong", "user:… is wrong"},
		"mysql://user:hunter2/@tcp(db)/x?loc=UTC":         {"hunter2/ is wrong", "… is wrong"},
		"postgres://user@db/x":                            {"user@db", "user@db"},
		"postgres://user:@db/x":                           {"user:@db", "user:@db"},
		"":                                                {"no such file", "no such file"},
		"postgres://user:hunter2@db/x?a=b@c":              {"hunter2@db/x?a=b, hunter2", "…@db/x?a=b, …"},
		"postgres://db/x?user=u@v&password=hunter2":       {"hunter2", "…"},
		"postgres://u:hunter2@db/x?sslpassword=hun%74er2": {"hunter2, hunter2", "…, …"},
		"postgres://user:hunter2@db":                      {"hunter2", "…"},
		"https://user:hunter2@etcd":                       {"hunter2", "…"},
	} {
		got := withoutPassword(errors.Join(errors.New(tc.err), inner), endpoint)
		if !strings.HasPrefix(got.Error(), tc.want) || strings.Contains(got.Error(), "hunter2") || !errors.Is(got, inner) {
			t.Errorf("%s: %q, not %q", endpoint, got, tc.want)
		}
	}
	if withoutPassword(nil, "postgres://user:hunter2@db/x") != nil {
		t.Error("an error of none")
	}
}

// TestPiecesOfAPasswordAreNotTold: where a password holds what ends it, each piece of the endpoint may belong to it.
func TestPiecesOfAPasswordAreNotTold(t *testing.T) {
	for _, endpoint := range []string{
		"postgres://user:12/hunter2@db/x", "postgres://user:12#hunter2@db/x", "postgres://a@b:12/hunter2@db/x", "postgresql://user:12/hunter2@db/x",
		"mysql://user:12/hunter2@tcp(db)", "mysql://user:p@hunter2/3@tcp(db)", "mysql://user:hunter2@tcp(db)",
	} {
		for how, got := range map[string]error{"an error": withoutPassword(errors.New("dial hunter2"), endpoint), "a start": startError(t, endpoint)} {
			if got == nil || strings.Contains(got.Error(), "hunter2") || !strings.Contains(got.Error(), "percent-encode") {
				t.Errorf("%s of %s: %v", how, endpoint, got)
			}
		}
	}
}

// startError is why a datastore with the endpoint does not start. Drivers log pieces of one that they misunderstand, so the start ends
// before they see it.
func startError(t *testing.T, endpoint string) error {
	t.Helper()
	_, err := Start(t.Context(), Options{Dir: t.TempDir(), Endpoint: endpoint, Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
	return err
}

// TestEndpointThatCannotBeParsed: the parser's error has the whole of it, or pieces.
func TestEndpointThatCannotBeParsed(t *testing.T) {
	for _, endpoint := range []string{
		"postgres://user:hunter2@127.0.0.1:none/x", "postgres://user:hunter2%zz@127.0.0.1:1/x",
		"postgres://user:hunter2/x@127.0.0.1:1/x", "postgres://user:hunter2?x@127.0.0.1:1/x", "postgres://user:hunter2#x@127.0.0.1:1/x",
		`postgres://user:hunter2"x@127.0.0.1:1/x`, `postgres://user:hunter2\x@127.0.0.1:1/x`,
		"postgres://127.0.0.1:54x/x?user=u&password=hunter2", "postgres://127.0.0.1:1/x?user=u&password=%hunter2",
		"mysql://user:hunter2/x@tcp(127.0.0.1:1)", "mysql://user:x/hunter2%zz@tcp(127.0.0.1:1)", "mysql://user:p@hunter2/x@tcp(127.0.0.1:1)",
	} {
		err := startError(t, endpoint)
		if err == nil || strings.Contains(err.Error(), "hun") || !strings.Contains(err.Error(), "percent-encode") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}
