package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// bystanderObjects is how many objects the cascade of somebody else has.
	bystanderObjects = 300
	// bystanderPatience is how long the benchmark waits for that cascade.
	bystanderPatience = 60 * time.Second
	// recoverWithin is how soon after an attack everything is as before.
	recoverWithin = 2 * time.Second
	// cleanWithin is how soon after the attacker's objects are deleted they are gone and their memory is free.
	cleanWithin = 60 * time.Second
	// unslowed is how long a cascade may take if the attack does not slow upstream's collector down.
	unslowed = time.Second
	// keptMemory is how much more memory may be taken afterwards, in MiB.
	keptMemory = 50
)

// hostile measures what an attack costs others, with upstream's collector and with reap's.
func (b *bench) hostile(ctx context.Context, at attack) error {
	name := "hostile/" + at.name
	theirs, failed := b.ordeal(ctx, at, upstream)
	if theirs.measured {
		b.reportOrdeal(name, upstream, theirs, nil)
	}
	if ctx.Err() != nil {
		return failed
	}
	ours, err := b.ordeal(ctx, at, own)
	if ours.measured {
		b.reportOrdeal(name, own, ours, &theirs)
	}
	return errors.Join(failed, err)
}

// ordeal holds the measurements of one attack with one collector.
type ordeal struct {
	peace, during, after outcome
	ten                  outcome       // of ten objects in the attacker's namespace, if there are any
	rate                 float64       // of the attacker's patches, each second
	left                 int           // of the attacker's objects, at the end
	gone                 time.Duration // when the last of them went, from their deletion
	// RssAnon of the process with the collector: before the attack, at its peak, and at the end; and the growth of the
	// server's at the end, in MiB.
	before, peak, end uint64
	grown             float64
	measured          bool // all of these figures exist
}

// ordeal runs an attack on a new server, with reap's collector in it or upstream's beside it.
func (b *bench) ordeal(ctx context.Context, at attack, who string) (o ordeal, err error) {
	dir, err := b.newDir()
	if err != nil {
		return o, err
	}
	var args []string
	if who != own {
		args = []string{withoutCollector}
	}
	err = b.with(ctx, dir, args, func(s *server) error {
		pid := s.cmd.Process.Pid
		if who != own {
			c, err := s.collector(who)
			if err != nil {
				return err
			}
			defer func() { _ = c.stop() }() // a failure shows in what it did
			pid = c.cmd.Process.Pid
		}
		t := &trial{bench: b, server: s, pid: pid, attack: at, attacker: &attacker{bench: b, server: s}, ordeal: &o}
		return t.run(ctx)
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", who, err)
	}
	return o, err
}

// trial is an ordeal under way.
type trial struct {
	bench    *bench
	server   *server
	pid      int // of the process that collects
	attack   attack
	attacker *attacker
	ordeal   *ordeal

	peaceful, present []*bystander // in peace, and during the attack
	last              *bystander   // after the attack
}

// run goes through all of it.
func (t *trial) run(ctx context.Context) error {
	if err := t.prepare(ctx); err != nil {
		return err
	}
	serverBefore, err := t.calm(ctx)
	if err != nil {
		return err
	}
	peak := follow(t.pid)
	defer peak.stop()
	began, err := t.strike(ctx)
	if err != nil {
		return err
	}
	if err := sleep(ctx, recoverWithin); err != nil {
		return err
	}
	if t.ordeal.after, err = t.last.cascade(ctx, t.server, t.attack.policy); err != nil {
		return err
	}
	if !t.attack.once {
		if err := t.attacker.delete(ctx, metav1.DeletePropagationBackground, t.attacker.made...); err != nil {
			return err
		}
		began = time.Now()
	}
	if err := t.awaitClean(ctx, began); err != nil {
		return err
	}
	t.ordeal.peak = peak.stop()
	now, err := memoryOf(t.pid)
	if err != nil {
		return err
	}
	t.ordeal.end = now.anon
	if now, err = memoryOf(t.server.cmd.Process.Pid); err != nil {
		return err
	}
	t.ordeal.grown = grown(serverBefore.anon, now.anon) / megabyte
	t.ordeal.measured = true
	return nil
}

// prepare makes the bystanders, and measures them in peace.
func (t *trial) prepare(ctx context.Context) (err error) {
	var all []*bystander
	for range 2*t.bench.repeat + 2 {
		ns, err := t.bench.namespace(ctx, t.server)
		if err != nil {
			return err
		}
		by, err := t.server.bystander(ctx, ns, bystanderObjects)
		if err != nil {
			return err
		}
		all = append(all, by)
	}
	t.peaceful, t.present, t.last = all[1:t.bench.repeat+1], all[t.bench.repeat+1:2*t.bench.repeat+1], all[2*t.bench.repeat+1]
	t.attacker.named = all[t.bench.repeat+1:]
	if t.attacker.ns, err = t.bench.namespace(ctx, t.server); err != nil {
		return err
	}
	if err := t.server.barrier(ctx, configMaps, t.attacker.ns); err != nil {
		return err
	}
	// The first one warms up.
	if _, err := all[0].cascade(ctx, t.server, t.attack.policy); err != nil {
		return err
	}
	outcomes, err := t.oneByOne(ctx, t.peaceful)
	if err != nil {
		return err
	}
	t.ordeal.peace = outcomes[len(outcomes)/2]
	return nil
}

// calm records the memory of the process with the collector, and returns that of the server.
func (t *trial) calm(ctx context.Context) (serves resident, err error) {
	var collects resident
	resting, ctx := errgroup.WithContext(ctx)
	resting.Go(func() (err error) {
		collects, err = atRest(ctx, t.pid)
		return err
	})
	resting.Go(func() (err error) {
		serves, err = t.server.rest(ctx)
		return err
	})
	err = resting.Wait()
	t.ordeal.before = collects.anon
	return serves, err
}

// strike carries out the attack, measures the bystanders meanwhile, and returns when it had begun.
func (t *trial) strike(ctx context.Context) (began time.Time, err error) {
	say("  the attack begins")
	if err := t.attack.begin(ctx, t.attacker); err != nil {
		return began, err
	}
	began = time.Now()
	attackCtx, stop := context.WithCancel(ctx)
	defer stop()
	attacking, measuring := errgroup.Group{}, errgroup.Group{}
	attacking.Go(func() error { t.attacker.patch(attackCtx); return nil })
	if err := sleep(ctx, t.attack.settle()); err != nil {
		return began, err
	}
	if t.attacker.beside != nil {
		measuring.Go(func() (err error) {
			t.ordeal.ten, err = t.attacker.beside.cascade(ctx, t.server, metav1.DeletePropagationBackground)
			return err
		})
	}
	measuring.Go(func() error {
		outcomes, err := t.oneByOne(ctx, t.present)
		if err == nil {
			// The worst: an attack that is done once may be over before the others.
			t.ordeal.during = outcomes[len(outcomes)-1]
		}
		return err
	})
	err = measuring.Wait()
	stop()
	_ = attacking.Wait() // it returns none
	t.ordeal.rate = float64(t.attacker.patches.Load()) / time.Since(began).Seconds()
	if err == nil && len(t.attacker.patched) > 0 && t.ordeal.rate == 0 {
		err = errors.New("the attacker could not patch anything")
	}
	return began, err
}

// awaitClean waits until the attacker's objects are gone, or their time, counted from since, is over. It records how many
// are left, or when the last of them went.
func (t *trial) awaitClean(ctx context.Context, since time.Time) (err error) {
	for {
		if t.ordeal.left, err = t.attacker.count(ctx); err != nil {
			return err
		}
		passed := time.Since(since)
		if t.ordeal.left == 0 {
			t.ordeal.gone = passed
			return sleep(ctx, cleanWithin-passed)
		}
		if passed > cleanWithin {
			return nil
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// bystander owns objects and harms nobody.
type bystander struct {
	ns    string
	items []item
	root  types.UID
}

// bystander makes an owner with n dependents.
func (s *server) bystander(ctx context.Context, ns string, n int) (*bystander, error) {
	by := &bystander{ns: ns, items: flat(n)}
	if err := s.create(ctx, configMaps, ns, by.items, small); err != nil {
		return nil, err
	}
	root, err := s.meta.Resource(configMaps.gvr).Namespace(ns).Get(ctx, by.items[0].name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	by.root = root.UID
	return by, nil
}

// outcome is how a bystander fared.
type outcome struct {
	took time.Duration // bystanderPatience if it did not end
	left int           // of its objects, then
}

// limit returns how many seconds a cascade may take with reap, given its outcome with upstream's collector: twice as long,
// or unslowed if that one took no longer. If it did not end in time with upstream's, it has to with reap's.
func (o outcome) limit() float64 {
	switch {
	case o.left > 0:
		return bystanderPatience.Seconds()
	case o.took <= unslowed:
		return unslowed.Seconds()
	}
	return 2 * o.took.Seconds()
}

// cascade deletes the owner and waits until everything is gone, at most for bystanderPatience.
func (by *bystander) cascade(ctx context.Context, s *server, policy metav1.DeletionPropagation) (outcome, error) {
	bounded, cancel := context.WithTimeout(ctx, bystanderPatience)
	defer cancel()
	left := len(by.items)
	done, err := func() (span, error) {
		w, err := s.witness(bounded, configMaps, by.ns, by.items, false)
		if err != nil {
			return span{}, err
		}
		defer func() { left = len(w.pending) }()
		began := time.Now()
		if err := s.meta.Resource(configMaps.gvr).Namespace(by.ns).Delete(bounded, by.items[0].name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			return span{}, err
		}
		return w.wait(bounded, began)
	}()
	if bounded.Err() != nil && ctx.Err() == nil {
		return outcome{took: bystanderPatience, left: left}, nil
	}
	return outcome{took: done.last}, err
}

// oneByOne has bystanders delete their owners one after the other, until one deletion does not end, and returns the
// outcomes, the best first.
func (t *trial) oneByOne(ctx context.Context, all []*bystander) ([]outcome, error) {
	var fared []outcome
	for _, by := range all {
		o, err := by.cascade(ctx, t.server, t.attack.policy)
		if err != nil {
			return nil, err
		}
		fared = append(fared, o)
		if o.left > 0 {
			break
		}
	}
	slices.SortFunc(fared, func(a, b outcome) int { return int(a.took - b.took) })
	return fared, nil
}

// count counts the attacker's objects, without those that can never go.
func (a *attacker) count(ctx context.Context) (int, error) {
	const others = 1 // the root CA
	page, err := a.server.meta.Resource(configMaps.gvr).Namespace(a.ns).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	n := len(page.Items)
	if page.RemainingItemCount != nil {
		n += int(*page.RemainingItemCount)
	}
	return max(0, n-others-a.stuck), nil
}

// follower follows the memory of a process.
type follower struct {
	over chan struct{}
	once sync.Once
	done sync.WaitGroup
	most uint64
}

func follow(pid int) *follower {
	f := &follower{over: make(chan struct{})}
	f.done.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-f.over:
				return
			case <-tick.C:
				m, _ := memoryOf(pid) // if it has ended, that shows elsewhere
				f.most = max(f.most, m.anon)
			}
		}
	})
	return f
}

// stop returns the peak.
func (f *follower) stop() uint64 {
	f.once.Do(func() { close(f.over) })
	f.done.Wait()
	return f.most
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// reportOrdeal adds the figures of an attack to the report. Only reap has budgets: theirs is upstream's ordeal for reap,
// and nil for upstream.
func (b *bench) reportOrdeal(name, who string, o ordeal, theirs *ordeal) {
	note := func(what string, value float64, unit string, limit float64) {
		var budget *budget
		if theirs != nil && limit >= 0 {
			budget = atMost(limit)
		}
		b.report.add(name, who+", "+what, value, unit, budget)
	}
	const unbounded = -1
	fared := func(what string, o outcome, limit float64) {
		note(what, o.took.Seconds(), "s", limit)
		if o.left > 0 {
			// Whatever the limit is: it may be longer than was waited for.
			note(what+": did not end; left", float64(o.left), "objects", min(limit, 0))
		}
	}
	during, ten := 0.0, 0.0
	if theirs != nil {
		during, ten = theirs.during.limit(), theirs.ten.limit()
	}
	fared(fmt.Sprintf("cascade of %d in peace", bystanderObjects), o.peace, unbounded)
	fared("the same during the attack", o.during, during)
	fared(fmt.Sprintf("the same %s after", recoverWithin), o.after, 2*o.peace.took.Seconds())
	if o.ten.took > 0 {
		fared("cascade of 10 in the attacker's namespace", o.ten, ten)
	}
	if o.rate > 0 {
		note("the attacker's patches", o.rate, "/s", unbounded)
	}
	note(fmt.Sprintf("the attacker's objects left after %s", cleanWithin), float64(o.left), "objects", 0)
	if o.gone > 0 {
		note("the last of them gone after", o.gone.Seconds(), "s", unbounded)
	}
	note("RssAnon before", float64(o.before)/megabyte, "MiB", unbounded)
	note("RssAnon at most", float64(o.peak)/megabyte, "MiB", unbounded)
	note("RssAnon after", float64(o.end)/megabyte, "MiB", float64(o.before)/megabyte+keptMemory)
	if who != own {
		note("RssAnon, by how much its server has grown", o.grown, "MiB", unbounded)
	}
}
