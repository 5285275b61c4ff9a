package reaptest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// atOnce is how many requests run side by side.
const atOnce = 16

// key names an object, whichever of those that have had the name.
type key struct {
	resource        schema.GroupResource
	namespace, name string
}

func (k key) String() string {
	text := k.resource.String() + "/" + k.name
	if k.namespace != "" {
		text += " in namespace " + k.namespace
	}
	return text
}

// served says at which version each resource is asked for.
type served map[schema.GroupResource]schema.GroupVersionResource

// state is all objects of a server at one time, with their metadata alone.
type state struct {
	objects map[key]*metav1.PartialObjectMetadata
	served  served
	// revision is that of the store while all were listed, and "" if something was written meanwhile.
	revision string
}

// clients are what it takes to see and change everything.
type clients struct {
	discovery discovery.DiscoveryInterface
	metadata  metadata.Interface
	objects   dynamic.Interface
}

func newClients(config *rest.Config) (*clients, error) {
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	d, err := discovery.NewDiscoveryClientForConfigAndClient(config, http)
	if err != nil {
		return nil, err
	}
	m, err := metadata.NewForConfigAndClient(config, http)
	if err != nil {
		return nil, err
	}
	o, err := dynamic.NewForConfigAndClient(config, http)
	if err != nil {
		return nil, err
	}
	return &clients{discovery: d, metadata: m, objects: o}, nil
}

// of returns the client of an object's resource and namespace.
func (c *clients) of(k key, s served) dynamic.ResourceInterface {
	return c.objects.Resource(s[k.resource]).Namespace(k.namespace)
}

// state lists the metadata of all objects. With an error it is all that could be listed.
func (c *clients) state(ctx context.Context) (state, error) {
	now := state{objects: map[key]*metav1.PartialObjectMetadata{}}
	var mu sync.Mutex // protects what follows, and now.objects
	revisions := map[string]bool{}
	var err error
	now.served, err = c.visit(func(r schema.GroupVersionResource) error {
		list, err := c.metadata.Resource(r).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		revisions[list.ResourceVersion] = true
		for i := range list.Items {
			o := &list.Items[i]
			now.objects[key{r.GroupResource(), o.Namespace, o.Name}] = o
		}
		return nil
	})
	if len(revisions) == 1 {
		for now.revision = range revisions {
		}
	}
	return now, err
}

// unchanged reports whether nothing at all has been written since the state was listed.
func (c *clients) unchanged(ctx context.Context, since state) bool {
	list, err := c.metadata.Resource(since.served[namespaces]).List(ctx, metav1.ListOptions{Limit: 1})
	return err == nil && list.ResourceVersion == since.revision
}

// visit calls f for each resource whose objects can be listed and deleted, for several at once, and returns these
// resources. Its error names the groups that do not answer and the resources for which f failed.
func (c *clients) visit(f func(schema.GroupVersionResource) error) (served, error) {
	lists, err := discovery.ServerPreferredResources(c.discovery)
	errs := []error{err}
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("asking which resources there are: %w", err)
	}
	found, err := discovery.GroupVersionResources(discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, lists))
	if err != nil {
		return nil, fmt.Errorf("asking which resources there are: %w", err)
	}
	all := served{}
	for r := range found {
		if r.Group != "events.k8s.io" { // another form of those of the core group
			all[r.GroupResource()] = r
		}
	}
	var mu sync.Mutex // protects errs
	each(all, func(gr schema.GroupResource, r schema.GroupVersionResource) {
		if err := f(r); err != nil && !apierrors.IsNotFound(err) { // NotFound: its definition has just gone
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, fmt.Errorf("listing %s: %w", gr, err))
		}
	})
	return all, errors.Join(errs...)
}

// each calls f for all entries, for a bounded number of them at once.
func each[K comparable, V any](entries map[K]V, f func(K, V)) {
	var calls sync.WaitGroup
	defer calls.Wait()
	turns := make(chan struct{}, atOnce)
	for k, v := range entries {
		turns <- struct{}{}
		calls.Go(func() {
			defer func() { <-turns }()
			f(k, v)
		})
	}
}
