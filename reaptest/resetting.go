package reaptest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	namespaces  = schema.GroupResource{Resource: "namespaces"}
	definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	apiServices = schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}
)

const (
	admission = "admissionregistration.k8s.io"
	// automanaged is the label of APIServices that come and go with definitions.
	automanaged = "kube-aggregator.kubernetes.io/automanaged"
	// shown is how many objects a test's output names.
	shown = 10
)

// resetting is one run of [Server.Reset]: passes, each of which lists everything and takes the next step.
type resetting struct {
	*clients
	kept     *kept
	now      state
	diff     *difference // between kept and now
	unlisted error       // why now is not all
	writes   atomic.Int64

	mu       sync.Mutex // protects what follows: a step acts on many objects at once
	freed    map[key]string
	refusals map[key]error
}

func newResetting(c *clients, k *kept) *resetting {
	return &resetting{clients: c, kept: k, diff: &difference{}, freed: map[key]string{}, refusals: map[key]error{}}
}

// pass reports whether it has found everything as it was.
func (r *resetting) pass(ctx context.Context) bool {
	now, err := r.state(ctx)
	if ctx.Err() != nil {
		return false // what the pass before has seen says more
	}
	r.unlisted = err
	if now.served == nil {
		return false
	}
	r.now, r.diff = now, r.kept.compare(now)
	maps.DeleteFunc(r.refusals, func(id key, _ error) bool { return !r.diff.has(id) })
	switch {
	case len(r.diff.extra) > 0:
		r.remove(ctx)
		return false
	case r.unlisted != nil:
		return false
	}
	written := r.writes.Load()
	each(r.diff.changed, act(ctx, r, r.restore))
	each(r.diff.missing, act(ctx, r, r.create))
	return r.writes.Load() == written && len(r.refusals) == 0
}

// act makes f note what it returns.
func act[V any](ctx context.Context, r *resetting, f func(context.Context, key, V) error) func(key, V) {
	return func(id key, v V) {
		err := f(ctx, id, v)
		r.mu.Lock()
		defer r.mu.Unlock()
		if ctx.Err() != nil {
			return // what was refused before says more
		}
		delete(r.refusals, id)
		if err != nil {
			r.refusals[id] = err
		}
	}
}

type extras = map[key]*metav1.PartialObjectMetadata

// remove takes the next step towards the end of all that is extra.
func (r *resetting) remove(ctx context.Context) {
	all := r.diff.extra
	if r.unlisted != nil {
		each(all, act(ctx, r, r.stopConversion))
	}
	// What might refuse the deletion of others, or hold it up.
	first := pick(all, func(id key, o *metav1.PartialObjectMetadata) bool {
		return id.resource.Group == admission || id.resource == apiServices && o.Labels[automanaged] == ""
	})
	if len(first) > 0 {
		each(first, act(ctx, r, r.delete))
		return
	}
	// Where nothing can be created any more, no controller replaces what is deleted.
	each(pick(all, func(id key, o *metav1.PartialObjectMetadata) bool {
		return id.resource == namespaces && o.DeletionTimestamp == nil
	}), act(ctx, r, r.delete))

	inhabited := map[key]bool{}
	for id := range all {
		inhabited[key{resource: namespaces, name: id.namespace}] = true
		inhabited[key{resource: definitions, name: id.resource.String()}] = true
	}
	each(pick(all, func(id key, o *metav1.PartialObjectMetadata) bool {
		switch id.resource {
		case apiServices:
			return false // goes with its definition
		case namespaces:
			return o.DeletionTimestamp != nil && !inhabited[id] && r.unlisted == nil
		case definitions:
			// Before its objects have gone, the server would look for their end every five seconds only.
			return !inhabited[id]
		}
		return true
	}), act(ctx, r, r.delete))
}

func pick(from extras, f func(key, *metav1.PartialObjectMetadata) bool) extras {
	picked := maps.Clone(from)
	maps.DeleteFunc(picked, func(id key, o *metav1.PartialObjectMetadata) bool { return !f(id, o) })
	return picked
}

// left says how the server differs from what is kept, as the end of an error's text.
func (r *resetting) left() string {
	found := map[key]string{}
	say := func(id key, what string) {
		if err := r.refusals[id]; err != nil {
			what += ": " + err.Error()
		}
		found[id] = what
	}
	for id := range r.diff.extra {
		say(id, "is still there")
	}
	for id := range r.diff.missing {
		say(id, "is missing")
	}
	for id := range r.diff.changed {
		say(id, "has changed")
	}
	text := lines(found)
	if r.unlisted != nil {
		text += fmt.Sprintf("\n  not all can be listed: %v", r.unlisted)
	}
	return text
}

// lines is a line for each of the first objects.
func lines(said map[key]string) string {
	var all []string
	for id, what := range said {
		all = append(all, fmt.Sprintf("\n  %s: %s", id, what))
	}
	slices.Sort(all)
	if more := len(all) - shown; more > 0 {
		all = append(all[:shown], fmt.Sprintf("\n  and %d more", more))
	}
	return strings.Join(all, "")
}
