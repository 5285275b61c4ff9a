package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/reap-dev/reap/pkg/gc/pause"
)

// The sources of a report, and the rules that it goes by.
const (
	// FromCollector: the running collector's own graph.
	FromCollector = "collector"
	// FromListing: a list of all metadata, made for the report.
	FromListing = "listing"
	// FromManifests: files, judged against the cluster that they are to be applied to.
	FromManifests = "manifests"

	// RulesOfReap: rings are broken, and foreground deletions may end by a timeout.
	RulesOfReap = "reap"
	// RulesOfKubernetes: no ring is broken, nothing times out, and UIDs alone block.
	RulesOfKubernetes = "kubernetes"
)

// Basis says what a report was made from.
type Basis struct {
	// Source is collector, listing or manifests, and Rules reap or kubernetes: whose rules say what
	// happens next.
	Source string `json:"source"`
	Rules  string `json:"rules"`
	// Note says why the cluster was listed, or which one manifests were judged against.
	Note string `json:"note,omitempty"`
	// NoCollector is true if the server is reap's and no collector works on its objects.
	NoCollector bool `json:"noCollector,omitempty"`
	// Objects counts those that the source holds, in all namespaces.
	Objects int `json:"objects"`
	// Incomplete is what could not be looked at; empty if the report is complete.
	Incomplete []Gap `json:"incomplete,omitempty"`
	// Pause is the collector's, if it is paused and the caller may see that.
	Pause *pause.State `json:"pause,omitempty"`
}

// Gap is something that could not be looked at: a resource or an API version.
type Gap struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// gapsShown is how many gaps are printed for people.
const gapsShown = 5

// Print writes what a reader has to know before the report. It writes nothing if the running
// collector knows everything.
func (b Basis) Print(out io.Writer) error {
	var lines []string
	switch b.Source {
	case FromManifests:
		lines = append(lines, fmt.Sprintf("%s in manifests, judged against %s", count(b.Objects, "object"), b.Note))
	case FromListing:
		lines = append(lines, fmt.Sprintf("from a list of %s: %s", count(b.Objects, "object"), b.Note))
		switch {
		case b.NoCollector:
			lines = append(lines, "no collector runs: nothing follows until one does; this is what Kubernetes' own collector would do")
		case b.Rules == RulesOfKubernetes:
			lines = append(lines, "by the rules of Kubernetes' own collector: no ring is broken, nothing times out, UIDs alone block")
		}
	}
	for i, g := range b.Incomplete {
		if i == gapsShown {
			lines = append(lines, fmt.Sprintf("incomplete: and %d more", len(b.Incomplete)-i))
			break
		}
		lines = append(lines, fmt.Sprintf("incomplete: %s: %s", g.What, oneLine(g.Why)))
	}
	if b.Pause != nil {
		lines = append(lines, "the collector is paused: "+pausedFor(b.Pause, time.Now()))
	}
	if len(lines) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "%s\n\n", strings.Join(lines, "\n"))
	return err
}
