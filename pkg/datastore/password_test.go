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
		"postgres://user:hunter2@db:none/x":  {`parse "postgres://user:hunter2@db:none/x": invalid port`, `parse "postgres://user:…@db:none/x": invalid port`},
		"postgres://user:hun%74er2@db/x":     {"hun%74er2 and hunter2", "… and …"},
		"mysql://user:p@ss:w@tcp(db)/x":      {"user:p@ss:w is wrong", "user:… is wrong"},
		"postgres://user:100%zz@db/x":        {"100%zz", "…"},
		"postgres://user@db/x":               {"user@db", "user@db"},
		"postgres://user:@db/x":              {"user:@db", "user:@db"},
		"":                                   {"no such file", "no such file"},
		"postgres://user:hunter2@db/x?a=b@c": {"hunter2@db/x?a=b, hunter2", "…, …"},
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

// TestEndpointThatCannotBeParsed: the parser's error has the whole of it.
func TestEndpointThatCannotBeParsed(t *testing.T) {
	for _, endpoint := range []string{"postgres://user:hunter2@127.0.0.1:none/x", "postgres://user:hunter2%zz@127.0.0.1:1/x"} {
		_, err := Start(t.Context(), Options{Dir: t.TempDir(), Endpoint: endpoint, Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}
