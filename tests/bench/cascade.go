package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// shippedObjects is how many objects upstream's collector deletes at its default limits. That takes it 14 seconds.
const shippedObjects = 300

// warmUp is how many objects are deleted before the measurement: a process that has just started does other work too.
const warmUp = 200

// shape is a cascade: its objects, and how they are deleted.
type shape struct {
	name, about string
	times       int // how many objects, in N
	kind        kind
	items       func(n int) []item
	policy      metav1.DeletionPropagation
	// The budgets, as ratios; 0 is none.
	client, unlimited float64
}

var shapes = []shape{
	{"background", "leaves of one owner, deleted in the background", 1, configMaps, flat, metav1.DeletePropagationBackground, 1, 2},
	{"foreground", "leaves of one owner, deleted in the foreground", 1, configMaps, flat, metav1.DeletePropagationForeground, 0, 2.5},
	{"foreground-deep", "three levels, nine leaves to an inner object, deleted in the foreground", 1, configMaps, threeLevels, metav1.DeletePropagationForeground, 0, 2.5},
	{"orphan", "leaves of one owner, orphaned", 1, configMaps, flat, metav1.DeletePropagationOrphan, 0, 5},
	{"wide", "many leaves of one owner, deleted in the background", 5, configMaps, flat, metav1.DeletePropagationBackground, 1, 2},
	{"deep-and-wide", "many chains of ten below one owner, deleted in the background", 5, configMaps, chains, metav1.DeletePropagationBackground, 1, 2},
	{"custom", "custom resources, leaves of one owner, deleted in the background", 1, widgets, flat, metav1.DeletePropagationBackground, 1, 2},
}

// cascades runs a shape with each contender in turn, all over one data directory, so that a machine that is slow for a
// while is slow for all of them. The server runs reap's collector in that contender's turns, and none in the others.
func (b *bench) cascades(ctx context.Context, sh shape) error {
	dir, err := b.newDir()
	if err != nil {
		return err
	}
	n := sh.times * b.objects
	spans := map[string][]span{}
	for i := range b.repeat {
		runs := []string{external, upstream}
		if i == 0 {
			runs = append(runs, upstreamShipped)
		}
		for _, turn := range []struct {
			args []string
			runs []string
		}{{[]string{withoutCollector}, runs}, {nil, []string{own}}} {
			err := b.with(ctx, dir, turn.args, func(s *server) error {
				for _, who := range turn.runs {
					many := n
					if who == upstreamShipped {
						many = min(n, shippedObjects)
					} else if _, _, err := b.cascade(ctx, s, sh, warmUp, who); err != nil {
						return fmt.Errorf("%s, to warm up: %w", who, err)
					}
					sp, _, err := b.cascade(ctx, s, sh, many, who)
					if err != nil {
						return fmt.Errorf("%s: %w", who, err)
					}
					say("  %s: %d objects, first after %s, last after %s", who, sp.objects, sp.first.Round(time.Millisecond), sp.last.Round(time.Millisecond))
					spans[who] = append(spans[who], sp)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	for _, who := range []string{own, external, upstream, upstreamShipped} {
		m := median(spans[who])
		b.report.add(sh.name, fmt.Sprintf("%s, %d objects", who, m.objects), m.rate(), "objects/s", nil)
		b.report.add(sh.name, who+", to the first", float64(m.first)/float64(time.Millisecond), "ms", nil)
		b.report.add(sh.name, who+", to the last", m.last.Seconds(), "s", nil)
		b.report.add(sh.name, who+", CPU of all who take part", m.cpuEach(), "µs/object", nil)
	}
	for _, against := range []struct {
		who   string
		ratio float64
	}{{external, sh.client}, {upstream, sh.unlimited}, {upstreamShipped, 0}} {
		var limit *budget
		if against.ratio > 0 {
			limit = atLeast(against.ratio)
		}
		ours, theirs := median(spans[own]), median(spans[against.who])
		b.report.add(sh.name, own+" : "+against.who, ours.rate()/theirs.rate(), "×", limit)
		// CPU does not depend on what else the machine does.
		b.report.add(sh.name, own+" : "+against.who+", objects by CPU", theirs.cpuEach()/ours.cpuEach(), "×", nil)
	}
	return nil
}

// with runs a server for as long as do takes.
func (b *bench) with(ctx context.Context, dir string, args []string, do func(*server) error) error {
	s, err := b.serve(ctx, dir, args...)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.stop())
}

// median returns the span with the median rate.
func median(spans []span) span {
	sorted := slices.Clone(spans)
	slices.SortFunc(sorted, func(a, b span) int { return int(a.last - b.last) })
	return sorted[len(sorted)/2]
}

// cascade makes a shape of n objects, has a contender delete it, and returns how long that took, and the namespace.
func (b *bench) cascade(ctx context.Context, s *server, sh shape, n int, who string) (span, string, error) {
	if sh.kind == widgets {
		if err := s.define(ctx); err != nil {
			return span{}, "", err
		}
	}
	ns, err := b.namespace(ctx, s)
	if err != nil {
		return span{}, "", err
	}
	collects := who != external
	parts := []int{s.cmd.Process.Pid} // who takes part
	if !collects {
		parts = append(parts, os.Getpid())
	} else if who != own {
		c, err := s.collector(who)
		if err != nil {
			return span{}, "", err
		}
		defer func() { _ = c.stop() }() // a failure shows in what it did
		parts = append(parts, c.cmd.Process.Pid)
	}
	if collects {
		if err := s.barrier(ctx, sh.kind, ns); err != nil {
			return span{}, "", err
		}
	}
	items := sh.items(n)
	if err := s.create(ctx, sh.kind, ns, items, small); err != nil {
		return span{}, "", err
	}
	if collects {
		if err := s.barrier(ctx, sh.kind, ns); err != nil {
			return span{}, "", err
		}
	}
	w, err := s.witness(ctx, sh.kind, ns, items, sh.policy == metav1.DeletePropagationOrphan)
	if err != nil {
		return span{}, "", err
	}
	spent, err := cpuOf(parts...)
	if err != nil {
		return span{}, "", err
	}
	before, err := effortOf(s.cmd.Process.Pid)
	if err != nil {
		return span{}, "", err
	}
	began := time.Now()
	work := errgroup.Group{}
	work.Go(func() error {
		if collects {
			return s.meta.Resource(sh.kind.gvr).Namespace(ns).Delete(ctx, "root", metav1.DeleteOptions{PropagationPolicy: &sh.policy})
		}
		return s.byHand(ctx, sh, ns, items)
	})
	done, err := w.wait(ctx, began)
	if err := errors.Join(err, work.Wait()); err != nil {
		return span{}, "", err
	}
	now, err := cpuOf(parts...)
	if err != nil {
		return span{}, "", err
	}
	after, err := effortOf(s.cmd.Process.Pid)
	if err != nil {
		return span{}, "", err
	}
	done.cpu, done.written = now-spent, after.written-before.written
	if sh.policy == metav1.DeletePropagationOrphan {
		// The next run has as much in the store as this one had.
		err = s.meta.Resource(sh.kind.gvr).Namespace(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	}
	return done, ns, err
}

// external is the client that does the same by itself, over TLS, with 16 workers.
const external = "client"

// byHand does the work of a collector: it deletes the objects, or removes their references. The root comes last.
func (s *server) byHand(ctx context.Context, sh shape, ns string, items []item) error {
	client := s.meta.Resource(sh.kind.gvr).Namespace(ns)
	now := metav1.DeletePropagationBackground
	pool, poolCtx := errgroup.WithContext(ctx)
	pool.SetLimit(clients)
	for _, it := range items[1:] {
		pool.Go(func() error {
			if sh.policy == metav1.DeletePropagationOrphan {
				_, err := client.Patch(poolCtx, it.name, types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`), metav1.PatchOptions{})
				return err
			}
			return client.Delete(poolCtx, it.name, metav1.DeleteOptions{PropagationPolicy: &now})
		})
	}
	if err := pool.Wait(); err != nil {
		return err
	}
	return client.Delete(ctx, items[0].name, metav1.DeleteOptions{PropagationPolicy: &now})
}
