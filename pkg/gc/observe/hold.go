package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Hold is a reason why an orphaning deletion waits: there may be dependents that cannot be
// listed. Reports show it as a report.Hold, whose fields are the same in the same order.
type Hold struct {
	// Resource is the resource whose objects cannot be listed, such as "widgets.example.com";
	// "" if the resources of the APIService are unknown.
	Resource string
	// APIService is the APIService through which the resource is served; "" if none is known.
	APIService string
	// Objects is the number of known objects whose deletion has not been seen.
	Objects int
	// Why says why the objects cannot be listed.
	Why string
	// Remedy says what ends the hold.
	Remedy string
}

// String is a sentence without its end.
func (h Hold) String() string {
	what := h.Resource
	if what == "" {
		what = "APIService " + h.APIService
	}
	return fmt.Sprintf("%s: %s; to end this, %s, or set --gc-orphan-timeout", what, h.Why, h.Remedy)
}

// ownNothing are API groups whose objects are computed when they are asked for: none has
// an owner.
var ownNothing = []string{"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"}

// Holding returns what holds every orphaning deletion at the moment, in order.
func (o *Observer) Holding() []Hold {
	catalog, counts := o.graph.Catalog(), o.graph.Suspended()
	hidden := o.definitions.hidden(catalog)
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []Hold
	for gr, s := range o.suspended {
		if counts[gr] == 0 {
			continue
		}
		h := Hold{Resource: gr.String(), Objects: counts[gr], Why: "it is not served though objects of it may exist", Remedy: "serve it again"}
		_, isCRD := o.definitions.uid(crdOf(gr))
		switch {
		case s.server == aggregated:
			h.APIService = serviceOf(gr, s.versions[0]).name
			h.Remedy = "make APIService " + h.APIService + " available or delete it"
		case isCRD:
			h.Remedy = "serve a version of the CRD or delete it"
		}
		delete(hidden, h.Resource)
		all = append(all, h)
	}
	for name, why := range hidden {
		remedy := "serve a version of the CRD or delete it"
		if name == crds.String() {
			remedy = "let the collector list CRDs"
		}
		all = append(all, Hold{Resource: name, Why: why, Remedy: remedy})
	}
	for _, gv := range o.never {
		if slices.Contains(ownNothing, gv.Group) {
			continue
		}
		name := gv.Version + "." + gv.Group
		all = append(all, Hold{
			APIService: name, Why: fmt.Sprintf("discovery has never shown what %s serves", gv),
			Remedy: "make the APIService available or delete it",
		})
	}
	slices.SortFunc(all, func(a, b Hold) int {
		return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.APIService, b.APIService))
	})
	return all
}
