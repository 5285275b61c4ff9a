package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Hold is a reason for which an orphaning deletion waits: there may be dependents that
// nobody can find.
type Hold struct {
	// Resource is the resource whose objects nobody can see, as "widgets.example.com";
	// empty if not even the resources are known.
	Resource string
	// APIService is the one through which the resource is served; empty if none is known.
	APIService string
	// Why says why nobody can see the objects.
	Why string
	// Objects counts those that have been seen and whose end has not.
	Objects int
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
