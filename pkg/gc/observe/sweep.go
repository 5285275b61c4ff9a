package observe

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

const (
	// sweepPause is how long a sweep rests after each sweepPage objects: nobody should
	// notice it.
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
	for restFor(ctx, o.sweepEvery) {
		o.sweep(ctx)
	}
}

// sweep compares every resource once, and makes the monitors that lost events list again.
func (o *Observer) sweep(ctx context.Context) {
	began := time.Now()
	complete := true
	var suspects []*suspect
	for _, gvr := range o.watched() {
		s, err := o.compare(ctx, gvr)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			complete = false
			o.log.WithField("resource", gvr.GroupResource().String()).WithError(err).Debug("cannot sweep a resource")
		case len(s.objects) > 0:
			suspects = append(suspects, s)
		}
	}
	if len(suspects) > 0 && !restFor(ctx, sweepGrace) {
		return
	}
	for _, s := range suspects {
		log := o.log.WithField("resource", s.gvr.GroupResource().String())
		differs, err := o.lasts(ctx, s)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			complete = false
			log.WithError(err).Debug("cannot sweep a resource")
		case differs:
			log.Warn("watch events were lost; listing the resource again")
			o.Relist(s.gvr.GroupResource())
		}
	}
	if complete {
		o.mu.Lock()
		o.sweptAt = time.Now()
		o.mu.Unlock()
	}
	o.log.WithField("took", time.Since(began).Round(time.Millisecond).String()).Debug("swept")
}

// SinceSweep returns how long ago the last sweep ended that could read every
// resource whose monitor works; before the first, how long the Observer has existed.
// It is false if there are no sweeps.
func (o *Observer) SinceSweep() (time.Duration, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Since(o.sweptAt), o.sweepEvery > 0
}

// suspect is a resource of which the graph and a list differ.
type suspect struct {
	gvr     schema.GroupVersionResource
	before  map[types.UID]string // resourceVersions in the graph, ahead of the list
	objects map[types.UID]listed // what differs; without a name if the list has not got it
}

// watched returns the resources whose first list is in the graph.
func (o *Observer) watched() []schema.GroupVersionResource {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []schema.GroupVersionResource
	for _, m := range o.monitors {
		if m.state().State == Synced {
			all = append(all, m.gvr)
		}
	}
	return all
}

// listed is an object as a sweep's list showed it.
type listed struct {
	namespace, name, version string
}

// compare lists one resource and returns the differences between the list and the graph.
func (o *Observer) compare(ctx context.Context, gvr schema.GroupVersionResource) (*suspect, error) {
	s := &suspect{gvr: gvr, before: o.graph.Versions(gvr.GroupResource()), objects: map[types.UID]listed{}}
	live, err := o.listSlowly(ctx, gvr)
	if err != nil {
		return nil, err
	}
	for uid, l := range live {
		if s.before[uid] != l.version {
			s.objects[uid] = l
		}
	}
	for uid := range s.before {
		if _, there := live[uid]; !there {
			s.objects[uid] = listed{}
		}
	}
	return s, nil
}

// lasts says whether a difference has outlived the grace and is confirmed by a live
// read. It changes nothing.
func (o *Observer) lasts(ctx context.Context, s *suspect) (bool, error) {
	after := o.graph.Versions(s.gvr.GroupResource())
	for uid, l := range s.objects {
		version, known := after[uid]
		_, knew := s.before[uid]
		if known != knew || version != s.before[uid] {
			continue // an event has come since
		}
		if l.name == "" {
			// The graph has what the list has not. A new list tells which is right: the
			// objects that it does not show are read live one by one.
			return true, nil
		}
		live, exists, err := o.read(ctx, s.gvr, l.namespace, l.name, uid)
		switch {
		case err != nil:
			return false, err
		case exists && live != version:
			return true, nil
		}
		// One that has gone since will be told of by its event.
	}
	return false, nil
}

// listSlowly lists a resource and rests after each page.
func (o *Observer) listSlowly(ctx context.Context, gvr schema.GroupVersionResource) (map[types.UID]listed, error) {
	all := map[types.UID]listed{}
	read := 0
	err := o.list(ctx, gvr, func(rec *graph.Record) {
		if read++; read%sweepPage == 0 {
			restFor(ctx, sweepPause) // the next page is asked for afterwards
		}
		all[rec.UID] = listed{namespace: rec.Namespace, name: rec.Name, version: rec.ResourceVersion}
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// restFor waits; it returns false if ctx ended first.
func restFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
