package plan

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// container is a namespace or a CustomResourceDefinition that is being deleted: what it
// contains is deleted first.
type container struct {
	of *thing
	// contents are the objects in it, pods apart, that nobody has deleted for its sake yet,
	// and pods those that the namespace controller deletes before all others.
	pods, contents []*thing
	left, podsLeft int // objects that are not gone
	policy         metav1.DeletionPropagation
	why            Reason
	ends           []int // the events of what went
	empty          bool
	off            bool // its controller does not run: it stays as it is
}

// open begins to empty what an object that is deleted contains.
func (r *run) open(t *thing) {
	inside := contents(graph.Node{Key: t.keys[0], Record: t.first})
	if inside == (graph.Contents{}) {
		return
	}
	if inside.Namespace != "" && r.disabled(namespaceController) {
		t.contents = &container{of: t, off: true}
		return
	}
	r.index()
	// The namespace controller deletes in the background; the API server, for a
	// definition, as the objects' own finalizers say.
	c := &container{of: t, policy: metav1.DeletePropagationBackground, why: InNamespace}
	all := r.inNamespace[inside.Namespace]
	if inside.Namespace == "" {
		c.policy, c.why = "", OfDefinition
		all = r.ofResource[inside.Resource]
	}
	for _, o := range all {
		if o.gone {
			continue
		}
		o.in = append(o.in, c)
		if c.left++; inside.Namespace != "" && o.keys[0].Resource == pods {
			c.podsLeft++
			c.pods = append(c.pods, o)
		} else {
			c.contents = append(c.contents, o)
		}
	}
	t.contents = c
	r.controllers = append(r.controllers, c)
}

// index finds out what namespaces and definitions contain.
func (r *run) index() {
	if r.inNamespace != nil {
		return
	}
	r.inNamespace, r.ofResource = map[string][]*thing{}, map[schema.GroupResource][]*thing{}
	for _, t := range r.things {
		if t.first.Namespace != "" {
			r.inNamespace[t.first.Namespace] = append(r.inNamespace[t.first.Namespace], t)
		}
		for _, k := range t.keys {
			r.ofResource[k.Resource] = append(r.ofResource[k.Resource], t)
		}
	}
}

// control is a turn of the controller that empties a container.
func (r *run) control(c *container) {
	after := func() []int {
		if c.of.marked < 0 {
			return nil
		}
		return []int{c.of.marked}
	}
	deleteAll := func(all []*thing) {
		for _, t := range all {
			r.delete(t, c.policy, c.why, c.of, after())
		}
	}
	deleteAll(c.pods)
	c.pods = nil
	if c.podsLeft > 0 {
		return
	}
	all := c.contents
	c.contents = nil
	deleteAll(all)
	if c.left > 0 || c.empty {
		return
	}
	c.empty = true
	emptied := *c.of.rec
	r.put(c.of, &emptied, Released, append(after(), c.ends...))
}

// left notes that one of a container's objects is gone.
func (r *run) left(c *container, end int) {
	c.ends = append(c.ends, end)
	c.left--
	t := r.events[end].of
	if t.keys[0].Resource == pods && c.why == InNamespace {
		c.podsLeft--
	}
	if (c.left == 0 || c.podsLeft == 0 && len(c.contents) > 0) && !slices.Contains(r.controllers, c) {
		r.controllers = append(r.controllers, c)
	}
}
