package listing

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

var errReadsOnly = errors.New("a listing writes nothing")

// possible reports whether an object can have the name. Owners with impossible names are not
// read and remain unverified.
func possible(name string) bool {
	return name != "" && len(content.IsPathSegmentName(name)) == 0
}

// ownerRead identifies the read of an owner at the coordinates of a reference.
type ownerRead struct {
	uid        types.UID
	at         graph.Coordinates
	apiVersion string
}

// verify reads each unverified owner live, once, and sets the result's time.
func (l *lister) verify(ctx context.Context) error {
	g := l.result.Graph
	doubtful := map[ownerRead]graph.OwnerView{}
	for _, n := range g.Objects() {
		if len(n.Record.References) == 0 {
			continue
		}
		v, _ := g.View(n.Key)
		for i := range v.Owners {
			o := &v.Owners[i]
			if decide.Judge(o, v.Record.Namespace, l.since) == decide.Unverified && possible(o.At.Name) {
				doubtful[ownerRead{o.Reference.UID, o.At, o.Reference.APIVersion}] = *o
			}
		}
	}
	all := make([]ownerRead, 0, len(doubtful))
	for r := range doubtful {
		all = append(all, r)
	}
	l.tell(func(p *Progress) { p.Owners = len(all) })
	actor := l.reader()
	facts := make(map[ownerRead]graph.Fact, len(all))
	each(ctx, all, func(ctx context.Context, r ownerRead) {
		fact, err := actor.Verify(ctx, doubtful[r], l.since)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			l.mu.Lock()
			facts[r] = fact
			l.mu.Unlock()
		case ofAll(err):
			l.stop(err)
			return
		}
		l.tell(func(p *Progress) { p.Read++ })
	})
	if err := context.Cause(ctx); err != nil {
		return err
	}
	l.result.Now = time.Now()
	for r, fact := range facts {
		if fact.State == graph.Present {
			fact.Seen = l.result.Now
		}
		g.Learn(r.uid, r.at, fact)
	}
	return nil
}

// reader returns an Actor that reads as the collector does and refuses writes.
func (l *lister) reader() *act.Actor {
	return act.New(act.Clients{Metadata: l.client}, func() error { return errReadsOnly }, func(act.Verb, act.Outcome) {})
}
