// Package act is the only part of the collector that talks to objects: it reads
// them live and writes them.
//
// Every write names the UID and the resourceVersion that it was decided on, so
// that an object which changed in between, or was made again under the same name,
// is left alone. A call is bounded in time and ends with its context.
package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// callTimeout bounds one call. The API server gives up a request after a minute.
const callTimeout = 30 * time.Second

// ErrPaused is the error of a write that was not made because the collector is
// paused.
var ErrPaused = errors.New("the collector is paused")

var errTimeout = fmt.Errorf("no answer from the API server within %s", callTimeout)

// Outcome says how a call ended.
type Outcome uint8

const (
	// Failed: the error says why; nothing is known of the effect.
	Failed Outcome = iota
	// Done: the server did it.
	Done
	// Gone: the object does not exist any more, or another has its name.
	Gone
	// Changed: the object is not the one that was decided on; read it and decide again.
	Changed
)

func (o Outcome) String() string { return [...]string{"failed", "done", "gone", "changed"}[o] }

// Verb names a kind of call.
type Verb string

// The calls that an Actor makes.
const (
	VerbRead   Verb = "get"
	VerbDelete Verb = "delete"
	VerbPatch  Verb = "patch"
	VerbList   Verb = "list"
)

// Verbs lists every Verb.
func Verbs() []Verb { return []Verb{VerbRead, VerbDelete, VerbPatch, VerbList} }

// Outcomes lists every Outcome.
func Outcomes() []Outcome { return []Outcome{Failed, Done, Gone, Changed} }

// Actor makes the collector's calls. It may be used concurrently.
type Actor struct {
	clients Clients
	// allow is asked before every write, and its error returned in its place.
	allow func() error
	// observe is told of every call.
	observe func(Verb, Outcome)
}

// New returns an Actor that calls through the clients. allow is called before every write, and
// an error from it prevents the write. observe is called after every call.
func New(c Clients, allow func() error, observe func(Verb, Outcome)) *Actor {
	return &Actor{clients: c, allow: allow, observe: observe}
}

// Object is an object as a live read showed it.
type Object struct {
	Resource schema.GroupVersionResource
	Metadata *metav1.PartialObjectMetadata
	// Behind is true if the object's controller has not seen the last change of its
	// spec before it was deleted: it may still be creating dependents. Only ReadStatus
	// finds that out.
	Behind bool
}

// Record returns the part that decisions are made from.
func (o *Object) Record() *graph.Record { return graph.RecordOf(o.Metadata) }

// Existence is what a live read says about an object.
type Existence uint8

const (
	// Unknown: the error says why nothing is known.
	Unknown Existence = iota
	// Present: it exists.
	Present
	// Absent: the resource itself says that it has no object of that name, or another
	// object has the name.
	Absent
)

// Read reads the object with a UID live, from a quorum of the store. Any answer but the
// resource's own, a 404 for an unknown path among them, is an error.
func (a *Actor) Read(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string, uid types.UID) (*Object, Existence, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errTimeout)
	defer cancel()
	m, err := a.clients.Metadata.Resource(gvr).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if outcome, err := a.read(ctx, err, gvr, namespace, name); outcome != Done {
		return nil, existence(outcome), err
	}
	return withUID(&Object{Resource: gvr, Metadata: m}, uid)
}

// withUID is the answer of a read that found an object under the name.
func withUID(o *Object, uid types.UID) (*Object, Existence, error) {
	if o.Metadata.UID != uid {
		return nil, Absent, nil
	}
	return o, Present, nil
}

func existence(o Outcome) Existence {
	if o == Gone {
		return Absent
	}
	return Unknown
}

// ReadStatus is Read for an object that is being deleted, and finds out whether its
// controller is behind. The deletion counts as one change itself.
func (a *Actor) ReadStatus(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string, uid types.UID) (*Object, Existence, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errTimeout)
	defer cancel()
	u, err := a.clients.Objects.Resource(gvr).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if outcome, err := a.read(ctx, err, gvr, namespace, name); outcome != Done {
		return nil, existence(outcome), err
	}
	m := &metav1.PartialObjectMetadata{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, m); err != nil {
		return nil, Unknown, fmt.Errorf("reading %s %s: %w", gvr.GroupResource(), cache.NewObjectName(namespace, name), err)
	}
	// A status without the field, or with something else in it, says nothing.
	observed, says, err := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	return withUID(&Object{Resource: gvr, Metadata: m, Behind: says && err == nil && observed < m.Generation-1}, uid)
}

// read classifies the answer to a read.
func (a *Actor) read(ctx context.Context, err error, gvr schema.GroupVersionResource, namespace, name string) (Outcome, error) {
	outcome := Done
	switch {
	case IsNotFound(err, gvr.GroupResource(), name):
		outcome, err = Gone, nil
	case err != nil:
		outcome, err = Failed, fmt.Errorf("reading %s %s: %w", gvr.GroupResource(), cache.NewObjectName(namespace, name), cause(ctx, err))
	}
	a.observe(VerbRead, outcome)
	return outcome, err
}

// Verify reads the owner that a reference names, at the reference's own
// coordinates, and returns what that proves at the time now.
func (a *Actor) Verify(ctx context.Context, o graph.OwnerView, now time.Time) (graph.Fact, error) {
	gv, err := schema.ParseGroupVersion(o.Reference.APIVersion)
	if err != nil {
		return graph.Fact{}, fmt.Errorf("verifying owner: %w", err)
	}
	// Whoever wrote the reference chose the name. One with a slash would be another path,
	// such as pods/x/proxy/y, which is asked for with the collector's rights.
	if why := content.IsPathSegmentName(o.At.Name); len(why) > 0 {
		return graph.Fact{}, fmt.Errorf("verifying owner: no object can have the name %q: %s", o.At.Name, strings.Join(why, ", "))
	}
	live, is, err := a.Read(ctx, gv.WithResource(o.Resource.Name), o.At.Namespace, o.At.Name, o.Reference.UID)
	switch {
	case err != nil:
		return graph.Fact{}, fmt.Errorf("verifying owner: %w", err)
	case is == Absent:
		return graph.Fact{State: graph.Absent}, nil
	}
	fact := graph.Fact{State: graph.Present, Seen: now}
	if live.Record().WaitingForDependents() {
		fact.Waiting, fact.Version = true, live.Metadata.ResourceVersion
	}
	return fact, nil
}

// DropReferences removes references from the object that was decided on, each by
// its whole value, and leaves all others as they are. An object that has changed
// since is left alone: rec holds every reference as it was at its resourceVersion.
func (a *Actor) DropReferences(ctx context.Context, gvr schema.GroupVersionResource, rec *graph.Record, drop []graph.Reference) (Outcome, error) {
	keep := make([]metav1.OwnerReference, 0, len(rec.References))
	dropped := sets.New(drop...) // an object may have thousands
	for _, r := range rec.References {
		if !dropped.Has(r) {
			keep = append(keep, r.OwnerReference())
		}
	}
	return a.patch(ctx, gvr, rec, map[string]any{"ownerReferences": keep})
}

// SetReferences replaces all references of the object that was decided on. An object that has changed since is left alone.
func (a *Actor) SetReferences(ctx context.Context, gvr schema.GroupVersionResource, rec *graph.Record, refs []graph.Reference) (Outcome, error) {
	all := make([]metav1.OwnerReference, 0, len(refs))
	for _, r := range refs {
		all = append(all, r.OwnerReference())
	}
	return a.patch(ctx, gvr, rec, map[string]any{"ownerReferences": all})
}

// Unblock sets blockOwnerDeletion of references to false, each found by its whole
// value, and leaves all others as they are. An object that has changed since it was
// decided on is left alone.
func (a *Actor) Unblock(ctx context.Context, gvr schema.GroupVersionResource, rec *graph.Record, unblock []graph.Reference) (Outcome, error) {
	all := make([]metav1.OwnerReference, 0, len(rec.References))
	unblocked := sets.New(unblock...)
	for _, r := range rec.References {
		if unblocked.Has(r) {
			r.BlockOwnerDeletion = graph.False
		}
		all = append(all, r.OwnerReference())
	}
	return a.patch(ctx, gvr, rec, map[string]any{"ownerReferences": all})
}

// RemoveFinalizer takes a finalizer off an object as a live read showed it, and
// leaves all others in their order. An object that has changed since is left alone.
func (a *Actor) RemoveFinalizer(ctx context.Context, live *Object, finalizer string) (Outcome, error) {
	keep := slices.DeleteFunc(slices.Clone(live.Metadata.Finalizers), func(f string) bool { return f == finalizer })
	return a.patch(ctx, live.Resource, live.Record(), map[string]any{"finalizers": keep})
}

// patch replaces fields of an object's metadata, lists as a whole, which the
// resourceVersion makes safe. It is a merge patch, because custom resources take
// no strategic one.
func (a *Actor) patch(ctx context.Context, gvr schema.GroupVersionResource, rec *graph.Record, metadata map[string]any) (Outcome, error) {
	if err := a.allow(); err != nil {
		return Failed, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errTimeout)
	defer cancel()
	metadata["uid"] = rec.UID
	metadata["resourceVersion"] = rec.ResourceVersion
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return Failed, fmt.Errorf("writing a patch: %w", err)
	}
	_, err = a.clients.Metadata.Resource(gvr).Namespace(rec.Namespace).Patch(ctx, rec.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return a.wrote(ctx, VerbPatch, err, gvr, rec.Namespace, rec.Name)
}

// pageSize is how many objects one call of List asks for.
const pageSize = 500

// List reads a resource's objects live, of one namespace or of all if namespace
// is empty, and hands their records to each, page by page.
func (a *Actor) List(ctx context.Context, gvr schema.GroupVersionResource, namespace string, each func(*graph.Record)) error {
	o := metav1.ListOptions{Limit: pageSize}
	for {
		callCtx, cancel := context.WithTimeoutCause(ctx, callTimeout, errTimeout)
		page, err := a.clients.Metadata.Resource(gvr).Namespace(namespace).List(callCtx, o)
		cancel()
		if err != nil {
			a.observe(VerbList, Failed)
			return fmt.Errorf("listing %s: %w", gvr.GroupResource(), cause(callCtx, err))
		}
		a.observe(VerbList, Done)
		for i := range page.Items {
			each(graph.RecordOf(&page.Items[i]))
		}
		if page.Continue == "" {
			return nil
		}
		o.Continue = page.Continue
	}
}

// wrote classifies the answer to a write.
func (a *Actor) wrote(ctx context.Context, verb Verb, err error, gvr schema.GroupVersionResource, namespace, name string) (Outcome, error) {
	outcome := Done
	switch {
	case err == nil:
	case IsNotFound(err, gvr.GroupResource(), name):
		outcome, err = Gone, nil
	case isConflict(err, name):
		outcome, err = Changed, nil
	default:
		outcome, err = Failed, fmt.Errorf("%s %s %s: %w", verb, gvr.GroupResource(), cache.NewObjectName(namespace, name), cause(ctx, err))
	}
	a.observe(verb, outcome)
	return outcome, err
}

// IsNotFound reports whether err is the resource's own answer that it has no object
// of that name. A proxy, a server of another version or a path that nobody serves
// also answers 404, which proves nothing: client-go marks such an answer with a
// cause, or it names something else.
func IsNotFound(err error, gr schema.GroupResource, name string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	s := status.Status()
	if s.Reason != metav1.StatusReasonNotFound || s.Details == nil {
		return false
	}
	d := s.Details
	return d.Name == name && d.Group == gr.Group && d.Kind == gr.Resource &&
		!slices.ContainsFunc(d.Causes, func(c metav1.StatusCause) bool {
			return c.Type == metav1.CauseTypeUnexpectedServerResponse
		})
}

// isConflict reports whether err is the server's own answer that the object is not the one of the request's preconditions. An
// admission webhook may deny a request with the same code and reason, however often the object is read: the server does not
// add the object's name to such an answer, as it does to its own.
func isConflict(err error, name string) bool {
	var status apierrors.APIStatus
	return apierrors.IsConflict(err) && errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name == name
}

// cause prefers the reason that a context ended for over the bare fact.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil && errors.Is(err, ctx.Err()) {
		return c
	}
	return err
}
