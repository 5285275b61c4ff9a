package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// Contents is what is in a namespace, and what of it keeps a deleted namespace from going.
type Contents struct {
	Objects int `json:"objects"`
	// Resources counts them, the resource with the most first.
	Resources []ResourceCount `json:"resources,omitempty"`
	// Waiting counts those in foreground deletion or being orphaned: they go after others.
	Waiting int `json:"waiting"`
	// HeldBy are those that do not go by themselves, the first of HeldByCount. Of a namespace that nobody has deleted
	// there is none.
	HeldBy      []Holder `json:"heldBy,omitempty"`
	HeldByCount int      `json:"heldByCount"`
	// Conditions are what the namespace's own status says is in the way, as the command that asked has read it, and
	// Unavailable the APIServices whose servers do not answer, so that nobody can tell what is left of their resources.
	Conditions  []string `json:"conditions,omitempty"`
	Unavailable []string `json:"unavailable,omitempty"`
	// SpecFinalizers are those of the namespace's spec, but for Kubernetes' own: their controllers have to take them off.
	SpecFinalizers []string `json:"specFinalizers,omitempty"`
}

// ResourceCount counts the objects of a resource.
type ResourceCount struct {
	Resource string `json:"resource"` // with its group: deployments.apps
	Count    int    `json:"count"`
}

// notDeletedYet is why an object in a namespace that goes is not going itself.
const notDeletedYet = "not-deleted-yet"

var namespaces = schema.GroupResource{Resource: "namespaces"}

// IsNamespace is true if the object is a namespace.
func (o Object) IsNamespace() bool { return o.GroupResource() == namespaces }

// contentsOf looks through a namespace; deleting is true if somebody has deleted it.
func contentsOf(g *graph.Graph, namespace string, deleting bool) *Contents {
	c := &Contents{}
	counts := map[string]int{}
	var held, untouched []Holder
	for n := range g.InNamespace(namespace) {
		c.Objects++
		counts[n.Key.Resource.String()]++
		switch r := n.Record; {
		case r.Deleting && (r.Foreground || r.Orphan):
			c.Waiting++
		case !deleting:
		case r.Deleting:
			held = append(held, Holder{Object: ObjectOf(n), Reason: string(decide.BeingDeleted), Text: sentence(decide.BeingDeleted), Finalizers: r.Finalizers.Names()})
		default:
			untouched = append(untouched, Holder{Object: ObjectOf(n), Reason: notDeletedYet,
				Text: "nobody has deleted it: the namespace's deletion has not come to it yet, or its DELETE is refused"})
		}
	}
	for r, n := range counts {
		c.Resources = append(c.Resources, ResourceCount{r, n})
	}
	slices.SortFunc(c.Resources, func(a, b ResourceCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Resource, b.Resource))
	})
	sortHolders(held)
	sortHolders(untouched)
	c.HeldByCount = len(held) + len(untouched)
	c.HeldBy = append(held, untouched...)
	c.HeldBy = c.HeldBy[:min(len(c.HeldBy), listed)]
	return c
}

// text counts what is left by resource, the first few.
func (c *Contents) text() string {
	if c.Objects == 0 {
		return "nothing"
	}
	var parts []string
	for _, r := range c.Resources[:min(len(c.Resources), listed)] {
		parts = append(parts, fmt.Sprintf("%d %s", r.Count, r.Resource))
	}
	text := strings.Join(parts, ", ")
	if more := len(c.Resources) - len(parts); more > 0 {
		text += fmt.Sprintf(" and %s", count(more, "other resource"))
	}
	return text
}
