package main

import (
	"context"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// engine is a binary with a datastore, and what it should keep to. A budget of 0 is none.
type engine struct {
	name, binary, datastore string
	limits                  storeLimits
}

// storeLimits are the budgets of one engine. Those without a unit are ratios to the binary of --before.
type storeLimits struct {
	written, cpu, page         float64 // bytes and µs for each object; ms
	idle, full, after          float64 // MiB of RssAnon: new; with many objects; after all were deleted
	idleWritten, rate, started float64 // B/s; ratio; ratio
	idleCPU, grown             float64 // % of a core; MB by which the binary is larger than that of --before
}

// engines returns who is compared: SQLite, the embedded etcd, and the binary of --before with its default.
func (b *bench) engines() []engine {
	all := []engine{
		{"SQLite", b.reap, "", storeLimits{written: 36e3, cpu: 800, page: 20, idle: 101, full: 180, after: 118, idleWritten: 7, rate: 1.15, started: 1.1, idleCPU: 3}},
		{"etcd", b.reap, "etcd", storeLimits{written: 3e3, cpu: 650, page: 30, idle: 100, full: 200, after: 130, idleWritten: 100, rate: 1.3, started: 1.3, idleCPU: 3.5, grown: 2}},
	}
	if b.before != "" {
		all = append(all, engine{name: "before", binary: b.before})
	}
	return all
}

var storePolicies = []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}

// storeCascades compares cascades on the datastores that come with reap. The engines take turns, so that a machine that is
// slow for a while is slow for all of them.
func (b *bench) storeCascades(ctx context.Context) error {
	engines := b.engines()
	dirs := make([]string, len(engines))
	spans := map[string]map[metav1.DeletionPropagation][]span{}
	for i, e := range engines {
		var err error
		if dirs[i], err = b.newDir(); err != nil {
			return err
		}
		spans[e.name] = map[metav1.DeletionPropagation][]span{}
	}
	for range b.repeat {
		for i, e := range engines {
			err := b.on(ctx, e, dirs[i], func(s *server) error {
				for _, policy := range storePolicies {
					sh := shape{kind: configMaps, items: flat, policy: policy}
					if _, _, err := b.cascade(ctx, s, sh, warmUp, own); err != nil {
						return fmt.Errorf("%s, to warm up: %w", policy, err)
					}
					sp, _, err := b.cascade(ctx, s, sh, 10*b.objects, own)
					if err != nil {
						return fmt.Errorf("%s: %w", policy, err)
					}
					say("  %s, %s: %.0f objects/s", e.name, policy, sp.rate())
					spans[e.name][policy] = append(spans[e.name][policy], sp)
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
		}
	}
	for _, e := range engines {
		for _, policy := range storePolicies {
			b.reportCascade(e, policy, median(spans[e.name][policy]), spans["before"][policy])
		}
	}
	return nil
}

// storesFull follows each datastore from new to many objects and back.
func (b *bench) storesFull(ctx context.Context) error {
	engines := b.engines()
	started := map[string]float64{}
	for _, e := range engines {
		var err error
		if started[e.name], err = b.fill(ctx, e); err != nil {
			return fmt.Errorf("%s, with many objects: %w", e.name, err)
		}
	}
	for _, e := range engines {
		size, err := megabytes(e.binary)
		if err != nil {
			return err
		}
		b.report.add("store", e.name+", binary", size, "MB", nil)
		if b.before != "" && e.limits.grown > 0 { // both engines are in one binary
			before, err := megabytes(b.before)
			if err != nil {
				return err
			}
			b.report.add("store", "binary, larger than before", size-before, "MB", atMost(e.limits.grown))
		}
		if e.limits.started > 0 && b.before != "" {
			b.report.add("store", e.name+" : before, start with many objects", started[e.name]/started["before"], "×", atMost(e.limits.started))
		}
	}
	return nil
}

// reportCascade reports a cascade, and how its rate compares with that of the binary of --before.
func (b *bench) reportCascade(e engine, policy metav1.DeletionPropagation, m span, before []span) {
	what := fmt.Sprintf("%s, %s, %d objects", e.name, policy, m.objects)
	var written, cpu *budget
	if policy == metav1.DeletePropagationBackground {
		written, cpu = limit(e.limits.written), limit(e.limits.cpu)
	}
	b.report.add("store", what, m.rate(), "objects/s", nil)
	b.report.add("store", what+", written", float64(m.written)/float64(m.objects), "B/object", written)
	b.report.add("store", what+", CPU of the server", m.cpuEach(), "µs/object", cpu)
	if e.limits.rate > 0 && len(before) > 0 {
		b.report.add("store", e.name+" : before, "+string(policy), m.rate()/median(before).rate(), "×", atLeast(e.limits.rate))
	}
}

// limit is a budget, or none.
func limit(most float64) *budget {
	if most == 0 {
		return nil
	}
	return atMost(most)
}

// on runs an engine's server for as long as do takes.
func (b *bench) on(ctx context.Context, e engine, dir string, do func(*server) error) error {
	reap, datastore := b.reap, b.datastore
	defer func() { b.reap, b.datastore = reap, datastore }()
	b.reap, b.datastore = e.binary, e.datastore
	return b.with(ctx, dir, nil, do)
}

// fill follows an engine from a new store to 50 N objects and back, and returns the seconds of a start with all of them.
func (b *bench) fill(ctx context.Context, e engine) (started float64, err error) {
	dir, err := b.newDir()
	if err != nil {
		return 0, err
	}
	n := 50 * b.objects
	var ns string
	err = b.on(ctx, e, dir, func(s *server) error {
		if err := b.noteMemory(ctx, s, e, "new", e.limits.idle); err != nil {
			return err
		}
		if err := b.idleStore(ctx, s, e); err != nil {
			return err
		}
		if ns, err = b.namespace(ctx, s); err != nil {
			return err
		}
		say("  %s: creating %d objects", e.name, n)
		if err := s.create(ctx, configMaps, ns, flat(n-1), small); err != nil {
			return err
		}
		if err := b.pages(ctx, s, e, ns, n); err != nil {
			return err
		}
		return b.noteMemory(ctx, s, e, fmt.Sprintf("with %d objects", n), e.limits.full)
	})
	if err != nil {
		return 0, err
	}
	err = b.on(ctx, e, dir, func(s *server) error {
		started = time.Since(s.began).Seconds()
		b.report.add("store", fmt.Sprintf("%s, start with %d objects, to ready", e.name, n), started, "s", nil)
		w, err := s.witness(ctx, configMaps, ns, flat(n-1), false)
		if err != nil {
			return err
		}
		now := metav1.DeletePropagationBackground
		if err := s.meta.Resource(configMaps.gvr).Namespace(ns).Delete(ctx, "root", metav1.DeleteOptions{PropagationPolicy: &now}); err != nil {
			return err
		}
		if _, err := w.wait(ctx, s.began); err != nil {
			return err
		}
		if err := b.noteMemory(ctx, s, e, "after all were deleted", e.limits.after); err != nil {
			return err
		}
		// A datastore forgets what was deleted when it is compacted.
		say("  %s: waiting for a compaction", e.name)
		if _, err := s.during(ctx, compactedWithin); err != nil {
			return err
		}
		return b.noteMemory(ctx, s, e, "after all were deleted and compacted", e.limits.after)
	})
	return started, err
}

// compactedWithin is a time in which a server compacts its datastore: it does so every five minutes.
const compactedWithin = 6 * time.Minute

func (b *bench) noteMemory(ctx context.Context, s *server, e engine, what string, most float64) error {
	m, err := s.rest(ctx)
	if err != nil {
		return err
	}
	b.report.add("store", e.name+", "+what+", RssAnon", float64(m.anon)/megabyte, "MiB", limit(most))
	return nil
}

func megabytes(binary string) (float64, error) {
	info, err := os.Stat(binary)
	if err != nil {
		return 0, err
	}
	return float64(info.Size()) / 1e6, nil
}

// idleStore watches a server at rest.
func (b *bench) idleStore(ctx context.Context, s *server, e engine) error {
	used, err := s.during(ctx, b.idle)
	if err != nil {
		return err
	}
	b.report.add("store", fmt.Sprintf("%s, at rest for %s, CPU", e.name, b.idle), 100*used.cpu.Seconds()/b.idle.Seconds(), "% of a core", limit(e.limits.idleCPU))
	b.report.add("store", fmt.Sprintf("%s, at rest for %s, written", e.name, b.idle), float64(used.written)/b.idle.Seconds(), "B/s", limit(e.limits.idleWritten))
	return nil
}

// pages walks through all objects in pages of 500 and reports the median page and the slowest.
func (b *bench) pages(ctx context.Context, s *server, e engine, ns string, n int) error {
	var took []time.Duration
	for options := (metav1.ListOptions{Limit: 500}); ; {
		began := time.Now()
		page, err := s.meta.Resource(configMaps.gvr).Namespace(ns).List(ctx, options)
		if err != nil {
			return err
		}
		took = append(took, time.Since(began))
		if options.Continue = page.Continue; page.Continue == "" {
			break
		}
	}
	what := fmt.Sprintf("%s, a page of 500 of %d objects", e.name, n)
	b.report.add("store", what+", p50", quantile(took, 50), "ms", limit(e.limits.page))
	b.report.add("store", what+", p99", quantile(took, 99), "ms", nil)
	return nil
}
