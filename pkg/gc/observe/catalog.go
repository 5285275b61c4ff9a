package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// alwaysIgnored are resources whose objects come and go in great numbers and own
// nothing: watching them costs more than it could ever collect.
var alwaysIgnored = []schema.GroupResource{{Resource: "events"}, {Group: "events.k8s.io", Resource: "events"}}

// discover asks the server what it serves. A group that cannot be discovered at
// the moment keeps what was known of it; failed names those groups. err is
// returned when nothing at all could be learnt.
func discover(ctx context.Context, d discovery.DiscoveryInterface, ignore []schema.GroupResource, before *graph.Catalog) (c *graph.Catalog, failed []string, err error) {
	groups, lists, err := d.ServerGroupsAndResources()
	gone := map[string]bool{}
	if err != nil {
		partial, ok := discovery.GroupDiscoveryFailedErrorGroups(err)
		if !ok {
			return nil, nil, fmt.Errorf("discovering resources: %w", err)
		}
		for gv := range partial {
			gone[gv.Group] = true
		}
	}
	aggregated := aggregatedGroups(ctx, d)
	var resources []*graph.Resource
	for _, g := range groups {
		if gone[g.Name] {
			continue
		}
		resources = append(resources, groupResources(g, lists, ignore, aggregated(g.Name))...)
	}
	for _, r := range before.Resources() {
		if gone[r.Group] {
			resources = append(resources, r)
		}
	}
	for g := range gone {
		failed = append(failed, g)
	}
	slices.Sort(failed)
	return graph.NewCatalog(resources), failed, nil
}

// groupResources joins the versions of a group: each resource once, with the
// preferred version first.
func groupResources(g *metav1.APIGroup, lists []*metav1.APIResourceList, ignore []schema.GroupResource, aggregated bool) []*graph.Resource {
	versions := []string{g.PreferredVersion.GroupVersion}
	for _, v := range g.Versions {
		if v.GroupVersion != g.PreferredVersion.GroupVersion {
			versions = append(versions, v.GroupVersion)
		}
	}
	var found []*graph.Resource
	byName := map[string]*graph.Resource{}
	for _, groupVersion := range versions {
		gv, err := schema.ParseGroupVersion(groupVersion)
		if err != nil {
			continue // a server that names no version serves none
		}
		for _, l := range lists {
			if l.GroupVersion != groupVersion {
				continue
			}
			for _, r := range l.APIResources {
				if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "get") {
					continue
				}
				res := byName[r.Name]
				if res == nil {
					res = &graph.Resource{Group: g.Name, Name: r.Name, Kind: r.Kind, Namespaced: r.Namespaced, Aggregated: aggregated}
					byName[r.Name] = res
					found = append(found, res)
					res.Monitored = deletable(r.Verbs) && !slices.Contains(ignore, res.GroupResource())
				}
				res.Versions = append(res.Versions, gv.Version)
			}
		}
	}
	return found
}

// deletable is true for what the collector can watch and collect.
func deletable(verbs []string) bool {
	for _, v := range []string{"delete", "list", "watch"} {
		if !slices.Contains(verbs, v) {
			return false
		}
	}
	return true
}

// aggregatedGroups tells which groups another server answers for. Where that
// cannot be read, every group counts as such: it costs a read before each delete
// and is safe.
func aggregatedGroups(ctx context.Context, d discovery.DiscoveryInterface) func(group string) bool {
	raw, err := d.RESTClient().Get().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices").Do(ctx).Raw()
	var list struct {
		Items []struct {
			Spec struct {
				Group   string          `json:"group"`
				Service json.RawMessage `json:"service"`
			} `json:"spec"`
		} `json:"items"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil {
		return func(string) bool { return true }
	}
	groups := map[string]bool{}
	for _, i := range list.Items {
		if len(i.Spec.Service) > 0 && string(i.Spec.Service) != "null" {
			groups[i.Spec.Group] = true
		}
	}
	return func(g string) bool { return groups[g] }
}
