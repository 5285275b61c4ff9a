package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/reap-dev/reap/pkg/gc/report"
)

// place is where objects can be listed together.
type place struct {
	resource  schema.GroupResource
	namespace string
}

const (
	// fewObjects is up to how many objects of one place are read one by one: a list reads all
	// that are there, which may be a hundred times as many.
	fewObjects = 250
	// readsAtOnce is how many reads are under way at the same time.
	readsAtOnce = 16
)

// shown is an object that a report shows, and what is to be read of it.
type shown struct {
	object report.Object
	live   *report.Live
}

// describeTree adds to a tree what a graph does not hold.
func (c *connection) describeTree(ctx context.Context, t *report.Tree) error {
	var all []shown
	for i := range t.Nodes {
		all = append(all, shown{t.Nodes[i].Object, &t.Nodes[i].Live})
	}
	return c.describe(ctx, all, &t.Basis)
}

// describePlan adds to a plan what a graph does not hold.
func (c *connection) describePlan(ctx context.Context, p *report.Plan) error {
	var all []shown
	for i := range p.Objects {
		all = append(all, shown{p.Objects[i].Object, &p.Objects[i].Live})
	}
	return c.describe(ctx, all, &p.Basis)
}

// describe reads live what a graph does not hold of the objects that a report shows: age,
// readiness and finalizers. A resource that cannot be read is a gap of the report. An error means
// that the server does not answer.
func (c *connection) describe(ctx context.Context, all []shown, basis *report.Basis) error {
	if len(all) == 0 {
		return nil
	}
	served, err := newServed(c.config)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return err
	}
	places := map[place]map[types.UID]shown{}
	for _, n := range all {
		at := place{n.object.GroupResource(), n.object.Namespace}
		if places[at] == nil {
			places[at] = map[types.UID]shown{}
		}
		places[at][n.object.UID] = n
	}
	var mu sync.Mutex // of refused
	refused := map[schema.GroupResource]error{}
	refuse := func(gr schema.GroupResource, err error) {
		mu.Lock()
		defer mu.Unlock()
		refused[gr] = err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for at, nodes := range places {
		gvr, err := served.mapper.ResourceFor(at.resource.WithVersion(""))
		if err != nil {
			refuse(at.resource, err)
			continue
		}
		objects := client.Resource(gvr).Namespace(at.namespace)
		read := func(do func() error) {
			group.Go(func() error {
				err := do()
				if status := apierrors.APIStatus(nil); errors.As(err, &status) {
					refuse(at.resource, err)
					return nil
				}
				return err
			})
		}
		if len(nodes) > fewObjects {
			read(func() error { return describeAll(ctx, objects, nodes) })
			continue
		}
		for _, n := range nodes {
			read(func() error { return describeOne(ctx, objects, n) })
		}
	}
	if err := group.Wait(); err != nil {
		return c.failed(err)
	}
	for gr, err := range refused {
		basis.Incomplete = append(basis.Incomplete, report.Gap{What: "age, readiness and finalizers of " + gr.String(), Why: err.Error()})
	}
	slices.SortFunc(basis.Incomplete, func(a, b report.Gap) int { return strings.Compare(a.What, b.What) })
	return nil
}

// describeOne reads one object.
func describeOne(ctx context.Context, client dynamic.ResourceInterface, n shown) error {
	o, err := client.Get(ctx, n.object.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && o.GetUID() != n.object.UID:
		n.live.Gone = true
		return nil
	case err != nil:
		return err
	}
	see(o, n.live)
	return nil
}

// describeAll reads objects page by page until all have been seen.
func describeAll(ctx context.Context, client dynamic.ResourceInterface, nodes map[types.UID]shown) error {
	left := maps.Clone(nodes)
	page := metav1.ListOptions{Limit: objectPage}
	for len(left) > 0 {
		list, err := client.List(ctx, page)
		if err != nil {
			return err
		}
		for i := range list.Items {
			o := &list.Items[i]
			if n, is := left[o.GetUID()]; is {
				delete(left, o.GetUID())
				see(o, n.live)
			}
		}
		if page.Continue = list.GetContinue(); page.Continue == "" {
			break
		}
	}
	for _, n := range left {
		n.live.Gone = true
	}
	return nil
}

// see notes what a read has shown.
func see(o *unstructured.Unstructured, n *report.Live) {
	n.Created, n.Finalizers, n.Ready = o.GetCreationTimestamp().UTC(), o.GetFinalizers(), readiness(o)
}

// readiness says in a few letters how ready an object is; "" if it does not say.
func readiness(o *unstructured.Unstructured) string {
	if containers, ok, _ := unstructured.NestedSlice(o.Object, "status", "containerStatuses"); ok {
		ready := 0
		for _, one := range containers {
			if m, _ := one.(map[string]any); m["ready"] == true {
				ready++
			}
		}
		return fmt.Sprintf("%d/%d", ready, len(containers))
	}
	number := func(path ...string) (int64, bool) {
		n, ok, err := unstructured.NestedInt64(o.Object, path...)
		return n, ok && err == nil
	}
	for _, wanted := range []struct{ all, ready []string }{
		{[]string{"spec", "replicas"}, []string{"status", "readyReplicas"}},
		{[]string{"status", "desiredNumberScheduled"}, []string{"status", "numberReady"}},
		{[]string{"spec", "completions"}, []string{"status", "succeeded"}},
	} {
		if all, ok := number(wanted.all...); ok {
			ready, _ := number(wanted.ready...)
			return fmt.Sprintf("%d/%d", ready, all)
		}
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, kind := range []string{"Ready", "Available", "Established"} {
		for _, one := range conditions {
			if m, _ := one.(map[string]any); m["type"] == kind {
				status, _ := m["status"].(string)
				return status
			}
		}
	}
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	return phase
}
