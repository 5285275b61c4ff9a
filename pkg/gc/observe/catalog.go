package observe

import (
	"cmp"
	"context"
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

// versions remembers what discovery has shown of each API version, for when it fails.
// Only the goroutine of Run uses it.
type versions struct {
	resources map[schema.GroupVersion][]metav1.APIResource
	// order holds the versions of each group, the preferred one first.
	order map[string][]string
}

// discovered is what one look at the server has shown.
type discovered struct {
	catalog *graph.Catalog
	// failed names the API versions that could not be discovered. Of those that could be
	// before, the catalog has what was known; of those in never, nothing is known.
	failed, never []schema.GroupVersion
	services      services
}

// Discover asks a server once what it serves. failed names the API versions that could not
// be discovered, of which the catalog holds nothing. An error means that nothing at all
// could be learnt.
func Discover(ctx context.Context, d discovery.DiscoveryInterface, ignore []schema.GroupResource) (c *graph.Catalog, failed []schema.GroupVersion, err error) {
	found, err := (&versions{}).discover(ctx, d, slices.Concat(alwaysIgnored, ignore))
	if err != nil {
		return nil, nil, err
	}
	return found.catalog, found.failed, nil
}

// discover asks the server what it serves. An error means that nothing at all could be
// learnt.
func (v *versions) discover(ctx context.Context, d discovery.DiscoveryInterface, ignore []schema.GroupResource) (*discovered, error) {
	groups, lists, err := d.ServerGroupsAndResources()
	failures := map[schema.GroupVersion]error{}
	if err != nil {
		partial, ok := discovery.GroupDiscoveryFailedErrorGroups(err)
		if !ok {
			return nil, fmt.Errorf("discovering resources: %w", err)
		}
		failures = partial
	}
	found := &discovered{services: readServices(ctx, d)}
	seen := versions{resources: map[schema.GroupVersion][]metav1.APIResource{}, order: map[string][]string{}}
	for _, l := range lists {
		if gv, err := schema.ParseGroupVersion(l.GroupVersion); err == nil && failures[gv] == nil {
			seen.resources[gv] = l.APIResources
		}
	}
	var names []string
	for _, g := range groups {
		names = append(names, g.Name)
		seen.order[g.Name] = versionsOf(g)
	}
	for gv := range failures {
		found.failed = append(found.failed, gv)
		if known, ok := v.resources[gv]; ok {
			seen.resources[gv] = known
		} else {
			found.never = append(found.never, gv)
		}
	}
	sortVersions(found.failed)
	sortVersions(found.never)
	for _, gv := range found.failed {
		if _, listed := seen.order[gv.Group]; !listed {
			names = append(names, gv.Group)
		}
		seen.keepOrder(gv, v.order[gv.Group])
	}
	var resources []*graph.Resource
	for _, g := range names {
		resources = append(resources, seen.groupResources(g, ignore, found.services.mayAggregate(g))...)
	}
	*v = seen
	found.catalog = graph.NewCatalog(resources)
	return found, nil
}

// keepOrder puts a version that could not be discovered where it was among the versions
// of its group: that discovery fails for a while moves no monitor.
func (v *versions) keepOrder(failed schema.GroupVersion, before []string) {
	now := v.order[failed.Group]
	if !slices.Contains(now, failed.Version) {
		now = append(now, failed.Version)
	}
	if !slices.Contains(before, failed.Version) {
		v.order[failed.Group] = now
		return
	}
	kept := slices.DeleteFunc(slices.Clone(before), func(version string) bool { return !slices.Contains(now, version) })
	for _, version := range now {
		if !slices.Contains(kept, version) {
			kept = append(kept, version)
		}
	}
	v.order[failed.Group] = kept
}

// versionsOf returns a group's versions, the preferred one first. A server that names no
// version serves none.
func versionsOf(g *metav1.APIGroup) (all []string) {
	for _, v := range slices.Concat([]metav1.GroupVersionForDiscovery{g.PreferredVersion}, g.Versions) {
		if gv, err := schema.ParseGroupVersion(v.GroupVersion); err == nil && gv.Version != "" && !slices.Contains(all, gv.Version) {
			all = append(all, gv.Version)
		}
	}
	return all
}

func sortVersions(all []schema.GroupVersion) {
	slices.SortFunc(all, func(a, b schema.GroupVersion) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version))
	})
}

// groupResources joins the versions of a group: each resource once, with the
// preferred version first.
func (v *versions) groupResources(group string, ignore []schema.GroupResource, aggregated bool) []*graph.Resource {
	var found []*graph.Resource
	byName := map[string]*graph.Resource{}
	for _, version := range v.order[group] {
		for _, r := range v.resources[schema.GroupVersion{Group: group, Version: version}] {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "get") {
				continue
			}
			res := byName[r.Name]
			if res == nil {
				res = &graph.Resource{Group: group, Name: r.Name, Kind: r.Kind, Namespaced: r.Namespaced, Aggregated: aggregated}
				byName[r.Name] = res
				found = append(found, res)
				res.Monitored = deletable(r.Verbs) && !slices.Contains(ignore, res.GroupResource())
			}
			res.Versions = append(res.Versions, version)
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
