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
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// callTimeout bounds one call. The API server gives up a request after a minute.
const callTimeout = 30 * time.Second

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
)

// Verbs and Outcomes list all values, for metrics.
func Verbs() []Verb { return []Verb{VerbRead, VerbDelete, VerbPatch} }

// Outcomes lists every Outcome.
func Outcomes() []Outcome { return []Outcome{Failed, Done, Gone, Changed} }

// Actor makes the collector's calls. It may be used concurrently.
type Actor struct {
	client metadata.Interface
	// observe is told of every call.
	observe func(Verb, Outcome)
}

// New returns an Actor that calls through client.
func New(client metadata.Interface, observe func(Verb, Outcome)) *Actor {
	return &Actor{client: client, observe: observe}
}

// Object is an object as a live read showed it.
type Object struct {
	Resource schema.GroupVersionResource
	Metadata *metav1.PartialObjectMetadata
}

// Record returns the part that decisions are made from.
func (o *Object) Record() *graph.Record { return graph.RecordOf(o.Metadata) }

// Read reads an object live, from a quorum of the store. Gone is returned only
// when the resource itself says that it has no such object; any other answer,
// a 404 for an unknown path among them, is an error.
func (a *Actor) Read(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string) (*Object, Outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errTimeout)
	defer cancel()
	m, err := a.client.Resource(gvr).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	outcome := Done
	switch {
	case isNotFound(err, gvr.GroupResource(), name):
		outcome, err = Gone, nil
	case err != nil:
		outcome, err = Failed, fmt.Errorf("reading %s %s: %w", gvr.GroupResource(), nameOf(namespace, name), cause(ctx, err))
	}
	a.observe(VerbRead, outcome)
	if outcome != Done {
		return nil, outcome, err
	}
	return &Object{Resource: gvr, Metadata: m}, Done, nil
}

// Verify reads the owner that a reference names, at the reference's own
// coordinates, and returns what that proves at the time now.
func (a *Actor) Verify(ctx context.Context, o graph.OwnerView, now time.Time) (graph.Fact, error) {
	gv, err := schema.ParseGroupVersion(o.Reference.APIVersion)
	if err != nil {
		return graph.Fact{}, fmt.Errorf("verifying owner: %w", err)
	}
	live, outcome, err := a.Read(ctx, gv.WithResource(o.Resource.Name), o.At.Namespace, o.At.Name)
	switch {
	case err != nil:
		return graph.Fact{}, fmt.Errorf("verifying owner: %w", err)
	case outcome == Gone || live.Metadata.UID != o.Reference.UID:
		return graph.Fact{State: graph.Absent}, nil
	}
	return graph.Fact{State: graph.Present, Seen: now}, nil
}

// Delete deletes the object that was decided on, and no other.
func (a *Actor) Delete(ctx context.Context, gvr schema.GroupVersionResource, rec *graph.Record, policy metav1.DeletionPropagation) (Outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errTimeout)
	defer cancel()
	err := a.client.Resource(gvr).Namespace(rec.Namespace).Delete(ctx, rec.Name, metav1.DeleteOptions{
		PropagationPolicy: &policy,
		Preconditions:     &metav1.Preconditions{UID: &rec.UID, ResourceVersion: &rec.ResourceVersion},
	})
	return a.wrote(ctx, VerbDelete, err, gvr, rec.Namespace, rec.Name)
}

// DropReferences removes references from an object, each only if the live read
// shows that very value, and leaves all others as they are. An object that has
// changed since the read is left alone.
func (a *Actor) DropReferences(ctx context.Context, live *Object, drop []graph.Reference) (Outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errTimeout)
	defer cancel()
	m := live.Metadata
	keep := slices.DeleteFunc(slices.Clone(m.OwnerReferences), func(r metav1.OwnerReference) bool {
		return slices.Contains(drop, graph.ReferenceOf(r))
	})
	// A merge patch, because custom resources take no strategic one. It replaces the
	// whole list, which the resourceVersion makes safe.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             m.UID,
		"resourceVersion": m.ResourceVersion,
		"ownerReferences": keep,
	}})
	if err != nil {
		return Failed, fmt.Errorf("writing a patch: %w", err)
	}
	_, err = a.client.Resource(live.Resource).Namespace(m.Namespace).Patch(ctx, m.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return a.wrote(ctx, VerbPatch, err, live.Resource, m.Namespace, m.Name)
}

// wrote classifies the answer to a write.
func (a *Actor) wrote(ctx context.Context, verb Verb, err error, gvr schema.GroupVersionResource, namespace, name string) (Outcome, error) {
	outcome := Done
	switch {
	case err == nil:
	case isNotFound(err, gvr.GroupResource(), name):
		outcome, err = Gone, nil
	case apierrors.IsConflict(err):
		outcome, err = Changed, nil
	default:
		outcome, err = Failed, fmt.Errorf("%s %s %s: %w", verb, gvr.GroupResource(), nameOf(namespace, name), cause(ctx, err))
	}
	a.observe(verb, outcome)
	return outcome, err
}

// isNotFound is true if the resource itself says that it has no object of that
// name. A proxy, a server of another version or a path that nobody serves answers
// 404 too, and that proves nothing: client-go marks such an answer with a cause,
// or it names something else.
func isNotFound(err error, gr schema.GroupResource, name string) bool {
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

// cause prefers the reason that a context ended for over the bare fact.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil && errors.Is(err, ctx.Err()) {
		return c
	}
	return err
}

func nameOf(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
