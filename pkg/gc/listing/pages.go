package listing

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// list lists one resource into the graph.
func (l *lister) list(ctx context.Context, r *graph.Resource) {
	gr := r.GroupResource()
	objects, err := l.objects(ctx, r)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil && ofAll(err):
		l.stop(fmt.Errorf("listing %s: %w", gr, why(ctx, err)))
		return
	case err != nil:
		l.gap(gr, err)
		l.result.Graph.SetReadable(gr, false, l.since)
	default:
		for _, o := range objects {
			l.result.Graph.Upsert(gr, o.record, l.since)
		}
		l.result.Graph.Listed(gr, l.since)
		l.keepFinalizers(r, objects)
	}
	l.tell(func(p *Progress) { p.Listed++ })
}

// object holds the parts of a listed object that are kept.
type object struct {
	record     *graph.Record
	finalizers []string
}

// objects returns a resource's objects. If the pages of a list expire, it lists again
// without pages.
func (l *lister) objects(ctx context.Context, r *graph.Resource) ([]object, error) {
	o := metav1.ListOptions{Limit: pageSize}
	var all []object
	expected := 0
	for {
		page, err := l.client.Resource(r.Preferred()).List(ctx, o)
		if apierrors.IsResourceExpired(err) && o.Continue != "" {
			l.tell(func(p *Progress) { p.Objects -= len(all); p.Expected -= expected })
			all, expected, o = nil, 0, metav1.ListOptions{}
			continue
		}
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			m := &page.Items[i]
			all = append(all, object{graph.RecordOf(m), foreign(m.Finalizers)})
		}
		known := max(len(all), expected)
		if page.RemainingItemCount != nil {
			known = len(all) + int(*page.RemainingItemCount)
		}
		l.tell(func(p *Progress) { p.Objects += len(page.Items); p.Expected += known - expected })
		expected = known
		if page.Continue == "" {
			return all, nil
		}
		o.Continue = page.Continue
	}
}

// foreign returns the finalizers that are not the collector's.
func foreign(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(f string) bool {
		return f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents
	})
}

func (l *lister) keepFinalizers(r *graph.Resource, objects []object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range objects {
		if len(o.finalizers) > 0 {
			l.result.Finalizers[graph.Key{Resource: r.GroupResource(), UID: o.record.UID}] = o.finalizers
		}
	}
}
