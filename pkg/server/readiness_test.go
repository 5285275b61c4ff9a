package server

import (
	"testing"

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
