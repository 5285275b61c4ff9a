package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/bound"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// object is one that a command line names, as the server has it.
type object struct {
	resource schema.GroupVersionResource
	kind     schema.GroupVersionKind
	metadata *metav1.PartialObjectMetadata
}

// key is the object's name in a graph.
func (o *object) key() graph.Key {
	return graph.Key{Resource: o.resource.GroupResource(), UID: o.metadata.UID}
}

// selection is which objects a command line names, as kubectl understands it.
type selection struct {
	// namespace is where objects of namespaced types are; all is for every namespace.
	namespace string
	all       bool
	labels    string
	files     []string
	recursive bool
	// types are accepted without a name, for all objects of theirs.
	types bool
	// every selects all objects of the types, as kubectl delete --all does; names are refused.
	every bool
}

// objectPage is how many objects a request by label asks for at once.
const objectPage = 500

// selectionFlags are the flags that name objects.
func selectionFlags() []cli.Flag {
	return []cli.Flag{
		namespaceFlag(),
		&cli.BoolFlag{Name: "all-namespaces", Aliases: []string{"A"}, Category: "Object", Usage: "look in every namespace, for types without a name or with --selector", DisableDefaultText: true},
		&cli.StringFlag{Name: "selector", Aliases: []string{"l"}, Category: "Object", Usage: "`LABELS` the objects of the given types that have these labels, such as app=web"},
		&cli.StringSliceFlag{Name: "filename", Aliases: []string{"f"}, Category: "Object", Usage: "`FILE` the objects that a manifest, a directory of manifests, a URL or - (standard input) names"},
		&cli.BoolFlag{Name: "recursive", Aliases: []string{"R"}, Category: "Object", Usage: "also what is below the directories of --filename", DisableDefaultText: true},
	}
}

// errNoObject is the error of a selection that selects nothing.
var errNoObject = errors.New("no object matches")

// allFlag selects every object of the types that are named.
func allFlag() *cli.BoolFlag {
	return &cli.BoolFlag{Name: "all", Category: "Object", Usage: "every object of the given types in the namespace, or with --all-namespaces in all of them", DisableDefaultText: true}
}

// selected reads selectionFlags.
func (c *connection) selected(ctx *cli.Context) selection {
	s := selection{
		namespace: ctx.String("namespace"), all: ctx.Bool("all-namespaces"), labels: ctx.String("selector"),
		files: ctx.StringSlice("filename"), recursive: ctx.Bool("recursive"), every: ctx.Bool("all"),
	}
	if s.namespace == "" {
		s.namespace = c.namespace
	}
	return s
}

// checkNamed refuses a command line that names no object, or combines --all with what names some.
func checkNamed(c *cli.Context) error {
	if c.Bool("all") {
		return checkAll(c)
	}
	if !c.Args().Present() && len(c.StringSlice("filename")) == 0 {
		return fmt.Errorf("give an object as TYPE/NAME, such as deployments/web; see '%s --help'", c.Command.HelpName)
	}
	return nil
}

// checkAll refuses what --all cannot be combined with: kubectl refuses it too.
func checkAll(c *cli.Context) error {
	args := c.Args().Slice()
	named := slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "/") })
	switch {
	case c.String("selector") != "":
		return errors.New("--all and --selector contradict each other: give one of them")
	case len(c.StringSlice("filename")) > 0:
		return errors.New("--all takes types, and --filename names objects: give one of them")
	case len(args) == 0:
		return errors.New("--all needs a type, such as pods or pods,configmaps")
	case named, len(args) > 1 && !strings.Contains(strings.Join(args, " "), ","):
		return errors.New("--all takes types without names, such as pods or pods,configmaps: leave out --all, or the names")
	}
	return nil
}

// objects reads what arguments such as TYPE/NAME… or TYPE NAME… and a selection name, each
// object once. It returns those that it found together with an error about the others.
func (c *connection) objects(ctx context.Context, args []string, s selection) ([]*object, error) {
	// What cli-runtime asks for takes no context.
	config := bound.All(c.config, func(request context.Context) (context.Context, context.CancelFunc, error) {
		request, cancel := context.WithCancel(request)
		stop := context.AfterFunc(ctx, cancel)
		return request, func() { stop(); cancel() }, nil
	})
	served, err := newServed(config)
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	b := resource.NewBuilder(served).Unstructured().ContinueOnError().RequireObject(false).
		NamespaceParam(s.namespace).DefaultNamespace().AllNamespaces(s.all).
		LabelSelectorParam(s.labels).SelectAllParam(s.every).RequestChunksOf(objectPage).
		// Of lists by label only the metadata is of interest; a file's object is read by name.
		TransformRequests(func(r *rest.Request) {
			r.SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
		}).
		ResourceTypeOrNameArgs(s.types, slices.Clone(args)...)
	missing, err := addFiles(ctx, b, s)
	if err != nil {
		return nil, err
	}
	f := found{seen: map[graph.Key]bool{}}
	err = b.Do().Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		if list, ok := info.Object.(*unstructured.UnstructuredList); ok {
			return list.EachListItem(func(item runtime.Object) error { return f.listed(info.Mapping, item) })
		}
		return f.read(ctx, client, info)
	})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err == nil && len(f.objects) == 0 {
		err = errNoObject
	}
	return f.objects, errors.Join(c.unresolved(err), missing)
}

// found collects objects.
type found struct {
	seen    map[graph.Key]bool
	objects []*object
}

func (f *found) add(m *meta.RESTMapping, o *metav1.PartialObjectMetadata) {
	one := &object{resource: m.Resource, kind: m.GroupVersionKind, metadata: o}
	if !f.seen[one.key()] {
		f.seen[one.key()] = true
		f.objects = append(f.objects, one)
	}
}

// listed adds an object of a list.
func (f *found) listed(m *meta.RESTMapping, item runtime.Object) error {
	u, ok := item.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("a list of %s holds a %T", m.Resource.GroupResource(), item)
	}
	o := &metav1.PartialObjectMetadata{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err != nil {
		return fmt.Errorf("reading %s %s: %w", m.Resource.GroupResource(), u.GetName(), err)
	}
	f.add(m, o)
	return nil
}

// read reads an object that is named.
func (f *found) read(ctx context.Context, client metadata.Interface, info *resource.Info) error {
	if info.Name == "" {
		return fmt.Errorf("%s: an object without a name, as with generateName, names nothing on the server", info.Source)
	}
	namespace := info.Namespace
	if !info.Namespaced() {
		namespace = ""
	}
	gr := info.Mapping.Resource.GroupResource()
	o, err := client.Resource(info.Mapping.Resource).Namespace(namespace).Get(ctx, info.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && namespace != "":
		return fmt.Errorf("there is no %s %q in the namespace %s", gr, info.Name, namespace)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no %s %q", gr, info.Name)
	case err != nil:
		return err
	}
	f.add(info.Mapping, o)
	return nil
}

// unresolved says which server it was that does not have what was asked for.
func (c *connection) unresolved(err error) error {
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "doesn't have a resource type"):
		return fmt.Errorf("%w; 'reap kubectl api-resources' lists those that %s has (from %s)", err, c.config.Host, c.source)
	}
	return c.failed(err)
}
