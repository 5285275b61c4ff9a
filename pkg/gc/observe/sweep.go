package observe

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// sweepPage is how many objects a sweep reads at once, and sweepPause how long it
	// rests after each page: nobody should notice it.
	sweepPage  = 500
	sweepPause = 100 * time.Millisecond
	// sweepGrace is how long events may take; a difference that lasts is suspect.
	sweepGrace = 5 * time.Second
)

// sweeps compares the graph with fresh lists, resource by resource, until ctx
// ends: watch events can be lost, by a store or a proxy, and nobody would know.
func (o *Observer) sweeps(ctx context.Context) {
	if o.sweepEvery <= 0 {
		return
	}
	for pause(ctx, o.sweepEvery) {
		began := time.Now()
		restarted := 0
		for _, gvr := range o.watched() {
			differs, err := o.sweep(ctx, gvr)
			log := o.log.WithField("resource", gvr.GroupResource().String())
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				log.WithError(err).Debug("cannot sweep a resource")
			case differs:
				restarted++
				log.Warn("watch events were lost; listing the resource again")
				o.Relist(gvr.GroupResource())
			}
		}
		o.log.WithField("took", time.Since(began).Round(time.Millisecond).String()).WithField("restarted", restarted).Debug("swept")
	}
}

// watched returns the resources whose first list is in the graph.
func (o *Observer) watched() []schema.GroupVersionResource {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []schema.GroupVersionResource
	for _, m := range o.monitors {
		if m.synced() && m.failing() == nil {
			all = append(all, m.gvr)
		}
	}
	return all
}

// listed is an object as a sweep's list showed it.
type listed struct {
	namespace, name, version string
}

// sweep lists one resource and says whether the graph differs from it in a way
// that lasts and that a live read confirms. It changes nothing.
func (o *Observer) sweep(ctx context.Context, gvr schema.GroupVersionResource) (differs bool, err error) {
	gr := gvr.GroupResource()
	before := o.graph.Versions(gr)
	live, err := o.list(ctx, gvr)
	if err != nil {
		return false, err
	}
	suspects := map[types.UID]listed{}
	for uid, l := range live {
		if before[uid] != l.version {
			suspects[uid] = l
		}
	}
	for uid := range before {
		if _, there := live[uid]; !there {
			suspects[uid] = listed{}
		}
	}
	if len(suspects) == 0 || !pause(ctx, sweepGrace) {
		return false, nil
	}
	after := o.graph.Versions(gr)
	for uid, l := range suspects {
		version, known := after[uid]
		_, knew := before[uid]
		if known != knew || version != before[uid] {
			continue // an event has come since
		}
		if !known && l.name == "" {
			continue
		}
		if l.name == "" {
			// The graph has what the list has not. A new list tells which is right: the
			// objects that it does not show are read live one by one.
			return true, nil
		}
		m, err := o.informers.client.Resource(gvr).Namespace(l.namespace).Get(ctx, l.name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue // gone since, as its event will say
		case err != nil:
			return false, err
		case m.UID == uid && m.ResourceVersion != version:
			return true, nil
		}
	}
	return false, nil
}

// list reads a resource's metadata page by page, slowly.
func (o *Observer) list(ctx context.Context, gvr schema.GroupVersionResource) (map[types.UID]listed, error) {
	all := map[types.UID]listed{}
	options := metav1.ListOptions{Limit: sweepPage}
	for {
		page, err := o.informers.client.Resource(gvr).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			m := &page.Items[i]
			all[m.UID] = listed{namespace: m.Namespace, name: m.Name, version: m.ResourceVersion}
		}
		if page.Continue == "" {
			return all, nil
		}
		options.Continue = page.Continue
		if !pause(ctx, sweepPause) {
			return nil, ctx.Err()
		}
	}
}

// pause waits; it returns false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
