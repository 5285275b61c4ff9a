package gc

import (
	"cmp"
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/lint"
	"github.com/reap-dev/reap/pkg/gc/pause"
	"github.com/reap-dev/reap/pkg/gc/report"
)

// failuresListed is how many objects that failed a status lists.
const failuresListed = 20

// Status says what the collector is doing.
func (c *Collector) Status() report.Status {
	now := c.now()
	stats := c.graph.Stats()
	s := report.Status{
		Version: report.StatusVersion, Running: true, Since: c.began.UTC(), Now: now.UTC(), Pause: c.pauseReport(), Guard: c.guard.report(now),
		Workers: c.workers, Busy: int(c.deleting.active.Load() + c.orphans.active.Load()),
		Breaking: c.breaker != nil && c.breaker.active.Load(),
		Queues:   []report.Queue{c.deleting.queue.report("delete"), c.orphans.queue.report("orphan")},
		Objects:  stats.Nodes, References: stats.Edges, Virtual: stats.Virtual,
		Collected: c.tally.total(), Disabled: c.disabled,
	}
	_, s.Synced = c.graph.Synced()
	for _, m := range c.observer.States() {
		r := report.Monitor{Resource: m.Resource.GroupResource().String(), State: string(m.State), Since: m.Since.UTC()}
		if m.Err != nil {
			r.Error = m.Err.Error()
		}
		s.Monitors = append(s.Monitors, r)
	}
	for _, h := range c.observer.Holding() {
		s.Holds = append(s.Holds, report.Hold(h))
	}
	s.Cascades, s.CascadeCount = c.cascades.latest(c.graph, c.decideOptions(), now)
	s.Failing = append(c.deleting.failing.list(c.graph), c.orphans.failing.list(c.graph)...)
	s.FailingCount = len(s.Failing)
	s.Failing = s.Failing[:min(s.FailingCount, failuresListed)]
	s.Waiting, s.WaitingCount = report.WaitingIn(c.graph, c.decideOptions(), now)
	return s
}

func (q *queue) report(name string) report.Queue {
	return report.Queue{Name: name, Length: q.lanes.waiting(), OldestSeconds: q.lanes.age().Seconds()}
}

// pauseReport returns the pause, or nil if there is none.
func (c *Collector) pauseReport() *pause.State {
	s, known := c.gate.paused()
	switch {
	case !known && c.unverified != nil && c.unverified() != "":
		return &pause.State{Paused: true, Reason: c.unverified()}
	case !known:
		return &pause.State{Paused: true, Reason: "it is not known yet whether the collector is paused"}
	case s.Paused:
		return &s
	}
	return nil
}

// Why explains an object; an error says why there is nothing to say about it.
func (c *Collector) Why(k graph.Key) (report.Why, error) {
	v, ok := c.graph.View(k)
	if !ok {
		return report.Why{}, c.unseen(k)
	}
	w := report.Explain(c.graph, &c.attempts.about(v).view, c.decideOptions(), c.now())
	w.Pause = c.pauseReport()
	w.Basis = c.basis()
	w.Failed = cmp.Or(c.deleting.failing.of(k), c.orphans.failing.of(k))
	return w, nil
}

// completeView is what the graph, tombstones and the attempts under way know of an object.
func (c *Collector) completeView(k graph.Key) (graph.View, bool) {
	v, ok := c.graph.View(k)
	if !ok {
		return v, false
	}
	return c.attempts.about(v).view, true
}

// Tree shows objects with their owners and dependents; an error says which object no monitor
// shows.
func (c *Collector) Tree(o report.TreeOptions) (report.Tree, error) {
	for _, k := range o.Keys {
		if _, ok := c.graph.View(k); !ok {
			return report.Tree{}, c.unseen(k)
		}
	}
	return report.NewTree(c.graph, c.completeView, o, c.basis(), c.now()), nil
}

// Lint says what is wrong with references, rings and deletions. Owners that nobody has read yet,
// as in a pause, are read live.
func (c *Collector) Lint(ctx context.Context, o report.LintOptions) report.Lint {
	c.readDoubtful(ctx)
	return report.NewLint(lint.Input{
		Graph: c.graph, View: c.completeView, Now: c.now(), BreaksRings: c.breaker != nil,
	}, o, c.basis(), nil)
}

// doubtfulRead is how many owners one report has read at the most, doubtfulAtOnce how many at the
// same time.
const (
	doubtfulRead   = 2000
	doubtfulAtOnce = 8
)

// readDoubtful reads owners live of which nothing is known, each once. One that cannot be read
// stays in doubt.
func (c *Collector) readDoubtful(ctx context.Context) {
	doubtful := map[ownerRead]graph.OwnerView{}
	for _, n := range c.graph.Objects() {
		if len(n.Record.References) == 0 {
			continue
		}
		v, ok := c.completeView(n.Key)
		if !ok {
			continue
		}
		for i := range v.Owners {
			r := &v.Owners[i]
			if r.Observed == nil && len(doubtful) < doubtfulRead && decide.Judge(r, n.Record.Namespace, c.now()) == decide.Unverified {
				doubtful[ownerRead{ownerPlace{r.Reference.UID, r.At}, r.Reference.APIVersion}] = *r
			}
		}
	}
	var reads errgroup.Group
	reads.SetLimit(doubtfulAtOnce)
	for _, r := range doubtful {
		reads.Go(func() error {
			if ctx.Err() == nil {
				_, _ = c.attempts.verifier.read(ctx, r) // what it shows, the graph is told
			}
			return nil
		})
	}
	_ = reads.Wait()
}

// basis says what the collector's reports are made from.
func (c *Collector) basis() report.Basis {
	b := report.Basis{Source: report.FromCollector, Rules: report.RulesOfReap, Objects: c.graph.Stats().Nodes}
	for _, m := range c.observer.States() {
		if m.Err != nil {
			b.Incomplete = append(b.Incomplete, report.Gap{What: m.Resource.GroupResource().String(), Why: m.Err.Error()})
		}
	}
	if _, synced := c.graph.Synced(); !synced {
		b.Incomplete = append(b.Incomplete, report.Gap{What: "everything", Why: "the collector is still listing what exists"})
	}
	return b
}

// unseen says why no monitor shows an object.
func (c *Collector) unseen(k graph.Key) error {
	switch r := c.graph.Catalog().Resource(k.Resource); {
	case r == nil:
		return fmt.Errorf("the collector does not know %s: no server has been seen to serve it", k.Resource)
	case !r.Monitored:
		return fmt.Errorf("the collector does not watch %s, so it never collects one: the resource is ignored, or cannot be deleted, listed and watched", k.Resource)
	}
	return fmt.Errorf("the collector has not seen this object of %s: it has gone, or its resource cannot be listed; reap status tells", k.Resource)
}
