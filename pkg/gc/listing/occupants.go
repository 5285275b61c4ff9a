package listing

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/relink"
)

// Occupants reads the objects at the coordinates of dangling references live, each once. Errors are those of List.
func Occupants(ctx context.Context, config *rest.Config, all []relink.Dangling) (map[graph.Coordinates]relink.Occupant, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	found := map[graph.Coordinates]relink.Occupant{}
	var owners []graph.OwnerView
	for _, d := range all {
		if _, noted := found[d.Owner.At]; !noted && d.Owner.Resource != nil && possible(d.Owner.At.Name) {
			found[d.Owner.At] = relink.Occupant{}
			owners = append(owners, d.Owner)
		}
	}
	if len(owners) == 0 {
		return found, nil
	}
	l, served, err := begin(ctx, config, Options{}, cancel)
	if err != nil {
		return nil, err
	}
	each(ctx, owners, func(ctx context.Context, o graph.OwnerView) {
		r := served.Resource(o.Resource.GroupResource())
		if r == nil {
			return // the manifests define the kind, and the server does not serve it yet
		}
		m, err := l.client.Resource(r.Preferred()).Namespace(o.At.Namespace).Get(ctx, o.At.Name, metav1.GetOptions{})
		var at relink.Occupant
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			at.Record = graph.RecordOf(m)
		case act.IsNotFound(err, o.Resource.GroupResource(), o.At.Name):
		case ofAll(err):
			l.stop(err)
			return
		default:
			at.Err = err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		found[o.At] = at
	})
	return found, context.Cause(ctx)
}
