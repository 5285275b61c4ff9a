package server

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/reap-dev/reap/pkg/apiserver"
	"github.com/reap-dev/reap/pkg/gc"
)

// readiness tells /readyz about the collector: what it cannot see is worth a look
// and no reason to take the API away from everybody.
type readiness struct {
	disabled  bool
	collector atomic.Pointer[gc.Collector]
}

func (r *readiness) note() apiserver.Note { return apiserver.Note{Name: "reap-gc", Text: r.text} }

func (r *readiness) text(known bool) string {
	c := r.collector.Load()
	switch {
	case r.disabled:
		return "no collector runs: --disable=gc"
	case c == nil:
		return "no collector runs in this server now"
	}
	var parts []string
	if list := summary(c.Unlistable(), known); list != "" {
		parts = append(parts, "cannot list: "+list)
	}
	if list := summary(c.Undiscovered(), known); list != "" {
		parts = append(parts, "cannot discover: "+list)
	}
	return strings.Join(parts, "; ")
}

// namedInReadiness is how many names /readyz shows.
const namedInReadiness = 5

// summary names the first few and counts the rest. Callers without credentials
// learn no names.
func summary(names []string, named bool) string {
	shown := min(len(names), namedInReadiness)
	if !named {
		shown = 0
	}
	switch rest := len(names) - shown; {
	case rest == 0:
		return strings.Join(names[:shown], ", ")
	case shown == 0:
		return fmt.Sprintf("%d in all", rest)
	default:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), rest)
	}
}
