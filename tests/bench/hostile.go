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
	// bystanderPatience is how long it is waited for.
	bystanderPatience = 60 * time.Second
	// recoverWithin is how soon after an attack everything is as before.
	recoverWithin = 2 * time.Second
	// cleanWithin is how soon after the attacker's deletion its objects are gone, and the memory that they took.
	cleanWithin = 60 * time.Second
	// unslowed is what a cascade may take, in seconds, where upstream's collector is not slowed down, or does not end.
	unslowed = 1
	// keptMemory is how much more memory may be taken afterwards, in MiB.
	keptMemory = 50
)

// hostile measures what an attack costs others, beside upstream's collector and beside reap.
func (b *bench) hostile(ctx context.Context, a attack) error {
	name := "hostile/" + a.name
	theirs, err := b.ordeal(ctx, a, upstream)
	if err != nil {
		return fmt.Errorf("%s: %w", upstream, err)
	}
	b.reportOrdeal(name, upstream, theirs, nil)
	ours, err := b.ordeal(ctx, a, own)
	if err != nil {
		return fmt.Errorf("%s: %w", own, err)
	}
	b.reportOrdeal(name, own, ours, &theirs)
	return nil
}

// ordeal is what was measured of one attack beside one collector.
type ordeal struct {
	peace, during, after outcome
	beside               *outcome // of ten objects in the attacker's namespace
	patches              float64  // of the attacker's objects, each second
	left                 int      // of the attacker's objects, at the end
	gone                 time.Duration
	// RssAnon of the process that collects, before the attack, at most, and at the end; and what its server has more
	// at the end, if that is another process.
	before, peak, end uint64
	server            float64
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
		o, err = b.suffer(ctx, at, s, pid)
		return err
	})
	return o, err
}

// suffer is an ordeal of a server whose collector is the process pid.
func (b *bench) suffer(ctx context.Context, at attack, s *server, pid int) (o ordeal, err error) {
	var all []*bystander
	for range 2*b.repeat + 2 {
		ns, err := b.namespace(ctx, s)
		if err != nil {
			return o, err
		}
		by, err := s.bystander(ctx, ns, bystanderObjects)
		if err != nil {
			return o, err
		}
		all = append(all, by)
	}
	// The first one warms up; the last one comes after the attack.
	first, peaceful, present, last := all[0], all[1:b.repeat+1], all[b.repeat+1:2*b.repeat+1], all[2*b.repeat+1]
	a := &attacker{bench: b, server: s, bystanders: all[b.repeat+1:]}
	if a.ns, err = b.namespace(ctx, s); err != nil {
		return o, err
	}
	if err := s.barrier(ctx, configMaps, a.ns); err != nil {
		return o, err
	}
	if _, err := first.cascade(ctx, s, at.policy); err != nil {
		return o, err
	}
	outcomes, err := cascadeOneByOne(ctx, s, at.policy, peaceful)
	if err != nil {
		return o, err
	}
	o.peace = outcomes[len(outcomes)/2]
	var collects, serves resident
	resting, restCtx := errgroup.WithContext(ctx)
	resting.Go(func() (err error) {
		collects, err = atRest(restCtx, pid)
		return err
	})
	resting.Go(func() (err error) {
		serves, err = s.rest(restCtx)
		return err
	})
	if err := resting.Wait(); err != nil {
		return o, err
	}
	o.before = collects.anon
	peak := follow(pid)
	defer peak.stop()

	say("  the attack begins")
	if err := at.begin(ctx, a); err != nil {
		return o, err
	}
	began := time.Now()
	attackCtx, stopPatches := context.WithCancel(ctx)
	defer stopPatches()
	var patching sync.WaitGroup
	patching.Go(func() { a.patch(attackCtx) })
	if err := sleep(ctx, at.settle()); err != nil {
		return o, err
	}
	var besides sync.WaitGroup
	var failed error
	if a.beside != nil {
		besides.Go(func() {
			var ten outcome
			ten, failed = a.beside.cascade(ctx, s, metav1.DeletePropagationBackground)
			o.beside = &ten
		})
	}
	outcomes, err = cascadeOneByOne(ctx, s, at.policy, present)
	besides.Wait()
	if err := errors.Join(err, failed); err != nil {
		return o, err
	}
	o.during = outcomes[len(outcomes)-1] // the worst: an attack that is done once may end before the others
	stopPatches()
	patching.Wait()
	if o.patches = float64(a.patches.Load()) / time.Since(began).Seconds(); len(a.patched) > 0 && o.patches == 0 {
		return o, errors.New("the attacker could not patch anything")
	}

	if err := sleep(ctx, recoverWithin); err != nil {
		return o, err
	}
	if o.after, err = last.cascade(ctx, s, at.policy); err != nil {
		return o, err
	}
	if !at.once {
		if err := a.delete(ctx, metav1.DeletePropagationBackground, a.made...); err != nil {
			return o, err
		}
		began = time.Now()
	}
	for o.gone == 0 && time.Since(began) < cleanWithin {
		if o.left, err = a.left(ctx); err != nil {
			return o, err
		}
		if o.left == 0 {
			o.gone = time.Since(began)
		} else if err := sleep(ctx, time.Second); err != nil {
			return o, err
		}
	}
	if err := sleep(ctx, time.Until(began.Add(cleanWithin))); err != nil {
		return o, err
	}
	o.peak = peak.stop()
	now, err := memoryOf(pid)
	if err != nil {
		return o, err
	}
	o.end = now.anon
	if pid != s.cmd.Process.Pid {
		now, err := memoryOf(s.cmd.Process.Pid)
		if err != nil {
			return o, err
		}
		o.server = grown(serves.anon, now.anon) / megabyte
	}
	o.left, err = a.left(ctx)
	return o, err
}

// bystander is somebody who owns objects and does nobody any harm.
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

// cascade deletes the owner and waits until all has gone, but not for ever.
func (by *bystander) cascade(ctx context.Context, s *server, policy metav1.DeletionPropagation) (outcome, error) {
	bounded, cancel := context.WithTimeout(ctx, bystanderPatience)
	defer cancel()
	w, err := s.witness(bounded, configMaps, by.ns, by.items, false)
	if err != nil {
		return outcome{}, err
	}
	began := time.Now()
	var done span
	err = s.meta.Resource(configMaps.gvr).Namespace(by.ns).Delete(bounded, by.items[0].name, metav1.DeleteOptions{PropagationPolicy: &policy})
	if err == nil {
		done, err = w.wait(bounded, began)
	}
	if bounded.Err() != nil && ctx.Err() == nil {
		return outcome{took: bystanderPatience, left: len(w.pending)}, nil
	}
	return outcome{took: done.last}, err
}

// cascadeOneByOne has bystanders delete their owners, one after the other until one does not end, and returns how they
// fared, the best first.
func cascadeOneByOne(ctx context.Context, s *server, policy metav1.DeletionPropagation, all []*bystander) ([]outcome, error) {
	var fared []outcome
	for _, by := range all {
		o, err := by.cascade(ctx, s, policy)
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

// left counts the attacker's objects, without those that can never go.
func (a *attacker) left(ctx context.Context) (int, error) {
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

// stop returns the most that the process had.
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

// reportOrdeal notes what an attack cost. The budgets are reap's: theirs is upstream's ordeal then, and nil otherwise.
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
			note(what+": did not end; left", float64(o.left), "objects", unbounded)
		}
	}
	during := 0.0
	if theirs != nil {
		during = unslowed
		if slowed := theirs.during.took > 2*theirs.peace.took; slowed && theirs.during.left == 0 {
			during = 2 * theirs.during.took.Seconds()
		}
	}
	fared(fmt.Sprintf("cascade of %d in peace", bystanderObjects), o.peace, unbounded)
	fared("the same during the attack", o.during, during)
	fared(fmt.Sprintf("the same %s after", recoverWithin), o.after, 2*o.peace.took.Seconds())
	if o.beside != nil {
		fared("cascade of 10 in the attacker's namespace", *o.beside, unslowed)
	}
	if o.patches > 0 {
		note("the attacker's patches", o.patches, "/s", unbounded)
	}
	note(fmt.Sprintf("the attacker's objects left after %s", cleanWithin), float64(o.left), "objects", 0)
	if o.gone > 0 {
		note("the last of them gone after", o.gone.Seconds(), "s", unbounded)
	}
	note("RssAnon before", float64(o.before)/megabyte, "MiB", unbounded)
	note("RssAnon at most", float64(o.peak)/megabyte, "MiB", unbounded)
	note("RssAnon after", float64(o.end)/megabyte, "MiB", float64(o.before)/megabyte+keptMemory)
	if theirs == nil {
		note("RssAnon, by how much its server has grown", o.server, "MiB", unbounded)
	}
}
