package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/restmapper"
)

// object is one that a command line names, as the server has it.
type object struct {
	resource schema.GroupVersionResource
	metadata *metav1.PartialObjectMetadata
}

// objectArguments reads TYPE/NAME, or TYPE NAME, as kubectl does.
func objectArguments(args []string) (kind, name string, err error) {
	switch {
	case len(args) == 1:
		kind, name, _ = strings.Cut(args[0], "/")
	case len(args) == 2 && !strings.Contains(args[0]+args[1], "/"):
		kind, name = args[0], args[1]
	}
	if kind == "" || name == "" || strings.Contains(name, "/") {
		return "", "", errors.New("give one object as TYPE/NAME, such as deployments/web")
	}
	return kind, name, nil
}

// object reads what TYPE/NAME names: of a namespaced type in the namespace.
func (c *connection) object(ctx context.Context, kind, name, namespace string) (*object, error) {
	d, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(d)
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	gvr, err := resourceFor(mapper, kind)
	if meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("the server at %s (from %s) has no resource type %q; 'reap kubectl api-resources' lists those it has", c.config.Host, c.source, kind)
	}
	if err != nil {
		return nil, c.failed(err)
	}
	gvk, err := mapper.KindFor(gvr)
	if err != nil {
		return nil, c.failed(err)
	}
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, c.failed(err)
	}
	client, err := metadata.NewForConfig(c.config)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		namespace = ""
	}
	m, err := client.Resource(gvr).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		where := ""
		if namespace != "" {
			where = " in the namespace " + namespace
		}
		return nil, fmt.Errorf("there is no %s %q%s", gvr.GroupResource(), name, where)
	}
	if err != nil {
		return nil, c.failed(err)
	}
	return &object{resource: gvr, metadata: m}, nil
}

// resourceFor finds a resource by its plural, singular, short name or kind, with or
// without group and version, as kubectl does.
func resourceFor(mapper meta.RESTMapper, kind string) (schema.GroupVersionResource, error) {
	full, short := schema.ParseResourceArg(strings.ToLower(kind))
	if full != nil {
		if gvr, err := mapper.ResourceFor(*full); err == nil {
			return gvr, nil
		}
	}
	return mapper.ResourceFor(short.WithVersion(""))
}
