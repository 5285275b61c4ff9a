package server

import (
	"fmt"
	"strings"

	"github.com/reap-dev/reap/pkg/apiserver"
	"github.com/reap-dev/reap/pkg/controllers"
	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/pkg/gc"
	"github.com/reap-dev/reap/pkg/gc/report"
)

// readiness adds a note about the collector to /readyz. A resource that the collector cannot
// see deserves attention, but is no reason to take the API away from everybody.
func readiness(collectors *gc.Registry) apiserver.Note {
	return apiserver.Note{Name: "reap-gc", Text: func(known bool) string { return collectorNote(collectors, known) }}
}

// storeReadiness adds a note about the datastore to /readyz. One that takes no writes still answers reads, and the API
// is where its users find that out.
func storeReadiness(store *datastore.Store, check *storeCheck) apiserver.Note {
	return apiserver.Note{Name: "reap-datastore", Text: func(known bool) string {
		text := store.Trouble()
		if text != "" && !known {
			return "takes no writes"
		}
		if held := check.why(); text == "" && held != "" {
			if !known {
				return "not checked yet, or damaged; the collector is held"
			}
			return held
		}
		return text
	}}
}

// controllersReadiness adds a note about the controllers to /readyz: those that cannot start, and are tried again. The API
// works without them.
func controllersReadiness(failures *controllers.Failures) apiserver.Note {
	return apiserver.Note{Name: "reap-controllers", Text: func(known bool) string { return controllersText(failures.All(), known) }}
}

func controllersText(failures []controllers.Failure, known bool) string {
	var failed []string
	for _, f := range failures {
		failed = append(failed, f.Controller+" ("+strings.Join(strings.Fields(f.Err.Error()), " ")+")") // one line
	}
	if len(failed) == 0 {
		return ""
	}
	return "cannot start: " + summary(failed, known)
}

// failedControllers returns the controllers that cannot start, as reports have them.
func failedControllers(failures []controllers.Failure) []report.Controller {
	var failed []report.Controller
	for _, f := range failures {
		failed = append(failed, report.Controller{Name: f.Controller, Since: f.Since, Attempts: f.Attempts, Error: f.Err.Error()})
	}
	return failed
}

func collectorNote(collectors *gc.Registry, known bool) string {
	c, absent := collectors.Collector()
	if c == nil {
		return absent.Reason
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

// summary names the first few and counts the rest. Callers without credentials see no
// names.
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
