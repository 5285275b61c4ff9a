package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// witness sees through a watch when each object of a world is done with: deleted, or, where they are to be
// orphaned, freed of its owner.
type witness struct {
	watch   watch.Interface
	pending map[string]bool
	all     int
	orphan  bool
	// half is closed when half of the objects are done with.
	half chan struct{}
}

// span is when a cascade's first and last object below the root were done with, from its beginning.
type span struct {
	objects     int
	first, last time.Duration
	// cpu is what the server took meanwhile, and whoever worked on it from outside. For a client, which is this
	// program, that includes what it costs to watch.
	cpu time.Duration
}

func (s span) rate() float64 { return float64(s.objects) / s.last.Seconds() }

// cpuEach is in microseconds.
func (s span) cpuEach() float64 { return float64(s.cpu.Microseconds()) / float64(s.objects) }

// witness begins to watch.
func (s *server) witness(ctx context.Context, k kind, ns string, items []item, orphan bool) (*witness, error) {
	w := &witness{pending: map[string]bool{}, all: len(items), orphan: orphan, half: make(chan struct{})}
	for _, it := range items {
		w.pending[it.name] = true
	}
	client := s.meta.Resource(k.gvr).Namespace(ns)
	now, err := client.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	w.watch, err = client.Watch(ctx, metav1.ListOptions{ResourceVersion: now.ResourceVersion})
	return w, err
}

// wait returns when every object is done with. It must be called while the cascade runs.
func (w *witness) wait(ctx context.Context, began time.Time) (span, error) {
	defer w.watch.Stop()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("it took too long"))
	defer cancel()
	done := span{objects: w.all - 1}
	for len(w.pending) > 0 {
		var e watch.Event
		var open bool
		select {
		case <-ctx.Done():
			return span{}, fmt.Errorf("%d of %d objects are left: %w", len(w.pending), w.all, context.Cause(ctx))
		case e, open = <-w.watch.ResultChan():
		}
		if !open || e.Type == watch.Error {
			return span{}, fmt.Errorf("the watch ended: %v", e.Object)
		}
		o, ok := e.Object.(*metav1.PartialObjectMetadata)
		if !ok || !w.pending[o.Name] || !w.finished(e.Type, o) {
			continue
		}
		delete(w.pending, o.Name)
		if role(o.Name) != "root" && done.first == 0 {
			done.first = time.Since(began)
		}
		if len(w.pending) == w.all/2 {
			close(w.half)
		}
	}
	done.last = time.Since(began)
	return done, nil
}

func (w *witness) finished(event watch.EventType, o *metav1.PartialObjectMetadata) bool {
	if w.orphan && role(o.Name) != "root" {
		return event == watch.Modified && len(o.OwnerReferences) == 0
	}
	return event == watch.Deleted
}
