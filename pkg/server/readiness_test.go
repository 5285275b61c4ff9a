package server

import (
	"errors"
	"testing"
	"time"

	"github.com/reap-dev/reap/pkg/controllers"
	"github.com/reap-dev/reap/pkg/gc"
	"github.com/reap-dev/reap/pkg/gc/report"
)

func TestReadinessNamesAFew(t *testing.T) {
	for _, c := range []struct {
		names []string
		known bool
		want  string
	}{
		{nil, true, ""},
		{nil, false, ""},
		{[]string{"widgets.example.com"}, true, "widgets.example.com"},
		{[]string{"a", "b", "c", "d", "e"}, true, "a, b, c, d, e"},
		{[]string{"a", "b", "c", "d", "e", "f", "g"}, true, "a, b, c, d, e and 2 more"},
		{[]string{"widgets.example.com"}, false, "1 in all"},
		{[]string{"a", "b", "c", "d", "e", "f", "g"}, false, "7 in all"},
	} {
		if got := summary(c.names, c.known); got != c.want {
			t.Errorf("%v, known %v: %q, want %q", c.names, c.known, got, c.want)
		}
	}
}

func TestReadinessSaysThatNoCollectorRuns(t *testing.T) {
	var none gc.Registry
	const why = "no collector runs in this server (--disable=gc)"
	none.Absent(report.Absence{Reason: why})
	if got := readiness(&none).Text(true); got != why {
		t.Errorf("disabled: %q", got)
	}
}

// TestControllersThatCannotStartAreSeen: the request is there, and the signer has no certificate that it may use.
func TestControllersThatCannotStartAreSeen(t *testing.T) {
	failed := []controllers.Failure{{Controller: "csrsigning", Attempts: 2, Since: time.Unix(1, 0), Err: errors.New("reading the certificate:\nno such file")}}
	if got := controllersText(failed, true); got != "cannot start: csrsigning (reading the certificate: no such file)" {
		t.Errorf("readiness: %q", got)
	}
	if got := controllersText(failed, false); got != "cannot start: 1 in all" {
		t.Errorf("readiness without credentials: %q", got)
	}
	if got := controllersReadiness(&controllers.Failures{}).Text(true); got != "" {
		t.Errorf("without failures: %q", got)
	}
	if got := failedControllers(failed); len(got) != 1 || got[0] != (report.Controller{
		Name: "csrsigning", Since: time.Unix(1, 0), Attempts: 2, Error: "reading the certificate:\nno such file",
	}) {
		t.Errorf("status: %+v", got)
	}
}
