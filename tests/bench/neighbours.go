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
)

const (
	getEvery  = 10 * time.Millisecond
	listEvery = 50 * time.Millisecond
	listed    = 100 // objects in a list
	quietFor  = 15 * time.Second
)

// neighbours measures how a large cascade slows a user, and a small cascade, in other namespaces.
func (b *bench) neighbours(ctx context.Context) error {
	dir, err := b.newDir()
	if err != nil {
		return err
	}
	return b.with(ctx, dir, nil, func(s *server) error {
		small10 := shapes[0]
		alone, _, err := b.cascade(ctx, s, small10, 10, own)
		if err != nil {
			return err
		}
		mine, err := b.namespace(ctx, s)
		if err != nil {
			return err
		}
		if err := s.create(ctx, configMaps, mine, flat(listed), small); err != nil {
			return err
		}
		large, err := b.namespace(ctx, s)
		if err != nil {
			return err
		}
		items := flat(10 * b.objects)
		if err := s.create(ctx, configMaps, large, items, small); err != nil {
			return err
		}
		if err := s.barrier(ctx, configMaps, large); err != nil {
			return err
		}
		if _, err := s.rest(ctx); err != nil {
			return err
		}
		idle, err := s.user(ctx, mine, func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(quietFor):
				return nil
			}
		})
		if err != nil {
			return err
		}
		w, err := s.witness(ctx, configMaps, large, items, false)
		if err != nil {
			return err
		}
		var whole, beside span
		var besideEnded time.Duration
		busy, err := s.user(ctx, mine, func(ctx context.Context) error {
			work, ctx := errgroup.WithContext(ctx)
			began := time.Now()
			work.Go(func() (err error) {
				whole, err = w.wait(ctx, began)
				return err
			})
			work.Go(func() error {
				policy := metav1.DeletePropagationBackground
				if err := s.meta.Resource(configMaps.gvr).Namespace(large).Delete(ctx, "root", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
					return err
				}
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-w.half:
				}
				var err error
				beside, _, err = b.cascade(ctx, s, small10, 10, own)
				besideEnded = time.Since(began)
				return err
			})
			return work.Wait()
		})
		if err != nil {
			return err
		}
		b.report.add("neighbours", fmt.Sprintf("cascade of %d", whole.objects), whole.rate(), "objects/s", nil)
		for _, r := range []struct {
			what       string
			idle, busy []time.Duration
		}{{"GET", idle.gets, busy.gets}, {fmt.Sprintf("LIST of %d", listed), idle.lists, busy.lists}} {
			for _, q := range []int{50, 99} {
				before, during := quantile(r.idle, q), quantile(r.busy, q)
				b.report.add("neighbours", fmt.Sprintf("%s p%d, idle (%d calls)", r.what, q, len(r.idle)), before, "ms", nil)
				b.report.add("neighbours", fmt.Sprintf("%s p%d, during the cascade (%d calls)", r.what, q, len(r.busy)), during, "ms", nil)
				var limit *budget
				if q == 99 && r.what == "GET" {
					limit = atMost(5)
				}
				b.report.add("neighbours", fmt.Sprintf("%s p%d, during : idle", r.what, q), during/before, "×", limit)
			}
		}
		b.report.add("neighbours", "cascade of 10, alone", alone.last.Seconds(), "s", nil)
		if besideEnded > whole.last {
			say("  the large cascade ended before the small one beside it: --objects is too small")
			return nil
		}
		b.report.add("neighbours", "cascade of 10, beside the large one", beside.last.Seconds(), "s", atMost(1))
		return nil
	})
}

// latencies are how long a user's calls took.
type latencies struct{ gets, lists []time.Duration }

// user reads objects, at times that do not depend on the answers, until during returns.
func (s *server) user(ctx context.Context, ns string, during func(context.Context) error) (latencies, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan struct{})
	client := s.meta.Resource(configMaps.gvr).Namespace(ns)
	var all latencies
	var gets, lists error
	var asking sync.WaitGroup
	asking.Go(func() {
		gets = every(getEvery, over, &all.gets, func() error {
			_, err := client.Get(ctx, "root", metav1.GetOptions{})
			return err
		})
	})
	asking.Go(func() {
		lists = every(listEvery, over, &all.lists, func() error {
			_, err := client.List(ctx, metav1.ListOptions{})
			return err
		})
	})
	err := during(ctx)
	close(over)
	asking.Wait()
	return all, errors.Join(err, gets, lists)
}

// every makes a call at each interval, whether the one before has been answered or not, until over is closed. It records
// how long each took.
func every(interval time.Duration, over <-chan struct{}, took *[]time.Duration, call func() error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var calls errgroup.Group
	var mu sync.Mutex
	for {
		select {
		case <-over:
			return calls.Wait()
		case <-tick.C:
		}
		calls.Go(func() error {
			began := time.Now()
			err := call()
			mu.Lock()
			defer mu.Unlock()
			*took = append(*took, time.Since(began))
			return err
		})
	}
}

// quantile returns, in milliseconds, what q percent of the calls did not exceed.
func quantile(took []time.Duration, q int) float64 {
	sorted := slices.Clone(took)
	slices.Sort(sorted)
	return float64(sorted[min(len(sorted)-1, len(sorted)*q/100)]) / float64(time.Millisecond)
}
