package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// The resources whose objects decide what is served.
var (
	crds        = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	apiServices = schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}
)

// definitions knows the CRDs and APIServices, from the events of their monitors. With a
// CRD its objects go; a CRD that exists and serves no version may have objects that
// nobody can see. It may be used concurrently.
type definitions struct {
	// mu protects what follows.
	mu    sync.Mutex
	known map[definitionKey]*definition
	// listed is true once the CRDs that existed when observing began are known.
	listed bool
}

type definitionKey struct {
	resource schema.GroupResource // crds or apiServices
	name     string
}

// definition is what is known of one CRD or APIService.
type definition struct {
	uid    types.UID
	exists bool
	// ended is true once it is proved to have gone: that of a CRD until its resource is
	// monitored anew, whether it has been made again or not, since its objects are gone
	// for good; that of an APIService until it is made again, since its objects may live on.
	ended bool
	// old is true if it may have had objects before observing began.
	old bool
	// read is true once a CRD that is not served has been read, and hidden says why it
	// may have objects all the same; empty if it has none.
	read   bool
	hidden string
}

// shown notes that a definition exists; first is true if the monitor's first list shows it.
func (d *definitions) shown(k definitionKey, uid types.UID, first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	def := d.known[k]
	if def == nil {
		def = &definition{old: first}
		d.known[k] = def
	}
	def.uid, def.exists = uid, true
	if k.resource == apiServices {
		def.ended = false
	}
}

// ended notes proof that a definition has gone.
func (d *definitions) ended(k definitionKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if def := d.known[k]; def != nil {
		def.exists, def.ended = false, true
	}
}

// allListed notes that all CRDs are known.
func (d *definitions) allListed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listed = true
}

// begin notes that a resource is monitored from now on: an earlier end of its CRD says
// nothing about the objects that will be shown.
func (d *definitions) begin(gr schema.GroupResource) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if def := d.known[crdOf(gr)]; def != nil {
		def.ended = false
	}
}

// prune forgets definitions that have gone and that define none of what is of interest.
func (d *definitions) prune(of func(definitionKey) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, def := range d.known {
		if !def.exists && !of(k) {
			delete(d.known, k)
		}
	}
}

// end is true if it is proved that the objects of a resource are gone: its CRD is, or
// the APIServices of all versions at which another server answers for it.
func (d *definitions) end(gr schema.GroupResource, versions []string, by server) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	ended := func(k definitionKey) bool { return d.known[k] != nil && d.known[k].ended }
	if ended(crdOf(gr)) {
		return true
	}
	return by == aggregated && !slices.ContainsFunc(versions, func(v string) bool { return !ended(serviceOf(gr, v)) })
}

// uid returns the UID of a definition that has been seen to exist.
func (d *definitions) uid(k definitionKey) (uid types.UID, seen bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if def := d.known[k]; def != nil {
		return def.uid, def.uid != ""
	}
	return "", false
}

// unserved returns the names of the CRDs that exist and of which the catalog has nothing.
func (d *definitions) unserved(catalog *graph.Catalog) (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, def := range d.known {
		if k.resource == crds && def.exists && catalog.Resource(schema.ParseGroupResource(k.name)) == nil {
			names = append(names, k.name)
		}
	}
	return names
}

// judged notes what a CRD that is not served was found to be.
func (d *definitions) judged(name, hidden string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if def := d.known[definitionKey{crds, name}]; def != nil {
		def.read, def.hidden = true, hidden
	}
}

// hidden returns why each CRD that the catalog has nothing of may have objects that
// nobody can see.
func (d *definitions) hidden(catalog *graph.Catalog) map[string]string {
	names := d.unserved(catalog)
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[string]string{}
	for _, name := range names {
		switch def := d.known[definitionKey{crds, name}]; {
		case def == nil:
		case !def.read && def.old:
			all[name] = "its CRD has not been read yet"
		case def.hidden != "":
			all[name] = def.hidden
		}
	}
	if r := catalog.Resource(crds); r != nil && r.Monitored && !d.listed {
		all[crds.String()] = "it has not been listed yet, so nobody knows which CRDs serve no version"
	}
	return all
}

// crdOf returns the CRD that defines a resource, if one does.
func crdOf(gr schema.GroupResource) definitionKey { return definitionKey{crds, gr.String()} }

// serviceOf returns the APIService of a version of a resource.
func serviceOf(gr schema.GroupResource, version string) definitionKey {
	return definitionKey{apiServices, version + "." + gr.Group}
}

// definedBy returns what may define a resource.
func definedBy(gr schema.GroupResource, versions []string) []definitionKey {
	all := []definitionKey{crdOf(gr)}
	for _, v := range versions {
		all = append(all, serviceOf(gr, v))
	}
	return all
}

// readAtMost bounds how long definitions are read: what is not read by then holds on.
const readAtMost = 30 * time.Second

// readDefinitions reads live the CRDs that exist and are not served, and those whose
// resources are suspended: an end that nobody has seen would hold for ever.
func (o *Observer) readDefinitions(ctx context.Context, d discovery.DiscoveryInterface, catalog *graph.Catalog) {
	ctx, cancel := context.WithTimeout(ctx, readAtMost)
	defer cancel()
	for _, k := range o.suspendedBy() {
		o.confirmEnd(ctx, k, catalog)
	}
	r := catalog.Resource(crds)
	if r == nil {
		return
	}
	for _, name := range o.definitions.unserved(catalog) {
		gv := r.Preferred().GroupVersion()
		raw, err := d.RESTClient().Get().AbsPath("apis", gv.Group, gv.Version, crds.Resource, name).Do(ctx).Raw()
		if apierrors.IsNotFound(err) {
			o.confirmEnd(ctx, definitionKey{crds, name}, catalog)
			continue
		}
		o.definitions.judged(name, hiddenBy(raw, err))
	}
}

// confirmEnd reads a definition live that has been seen to exist, and notes if it does
// not any more.
func (o *Observer) confirmEnd(ctx context.Context, k definitionKey, catalog *graph.Catalog) {
	uid, seen := o.definitions.uid(k)
	r := catalog.Resource(k.resource)
	if !seen || r == nil {
		return
	}
	_, exists, err := o.read(ctx, r.Preferred(), "", k.name, uid)
	switch {
	case err != nil:
		o.log.WithError(err).Debug("cannot read what defines a resource")
	case !exists:
		o.definitions.ended(k)
	}
}

// hiddenBy returns why a CRD that discovery does not show may have objects; empty if it was never
// established, so that nobody can have made any. One that serves a version hides its objects until
// discovery shows it: no monitor lists them before.
func hiddenBy(raw []byte, err error) string {
	var crd struct {
		Spec struct {
			Versions []struct {
				Served bool `json:"served"`
			} `json:"versions"`
		} `json:"spec"`
		Status struct {
			Conditions []struct {
				Type   string `json:"type"`
				Status string `json:"status"`
			} `json:"conditions"`
		} `json:"status"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &crd)
	}
	if err != nil {
		return fmt.Sprintf("its CRD cannot be read: %v", err)
	}
	established := false
	for _, c := range crd.Status.Conditions {
		if c.Type == "Established" && c.Status == "True" {
			established = true
		}
	}
	if !established {
		return ""
	}
	for _, v := range crd.Spec.Versions {
		if v.Served {
			return "its CRD serves a version that discovery does not show yet"
		}
	}
	return "its CRD serves no version"
}
