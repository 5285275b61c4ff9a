package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// witness watches when each object of a world is done: deleted, or, in an orphaning, without its reference to the
// owner.
type witness struct {
	watch   watch.Interface
	pending map[string]bool
	all     int
	orphan  bool
	// half is closed when half of the objects are done.
	half chan struct{}
}

// span says when the first and the last object below a cascade's root were done, counted from its beginning.
type span struct {
	objects     int
	first, last time.Duration
	// cpu is the CPU time of the server and of a collector or client outside it. For a client, which is this program,
	// it includes the cost of watching.
	cpu time.Duration
	// written is what the server has written to disk, in bytes.
	written uint64
}

func (s span) rate() float64 { return float64(s.objects) / s.last.Seconds() }

// cpuEach is in microseconds.
func (s span) cpuEach() float64 { return float64(s.cpu.Microseconds()) / float64(s.objects) }

// witness starts a watch.
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

// wait returns when every object is done. It must be called while the cascade runs.
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
