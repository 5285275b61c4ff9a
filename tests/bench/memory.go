package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// megabyte is the unit in which memory is shown.
const megabyte = 1 << 20

// groups is owners with nine dependents each, n objects in all.
func groups(n int) []item {
	var items []item
	for i := range n / 10 {
		owner := len(items)
		items = append(items, item{fmt.Sprintf("inner-%06d", i), -1})
		for j := range 9 {
			items = append(items, item{fmt.Sprintf("leaf-%06d-%d", i, j), owner})
		}
	}
	return items
}

// dressed gives an object the metadata of one that people apply with tools: annotations, labels, and fields for
// managedFields to name.
func dressed(o *unstructured.Unstructured) {
	data := map[string]any{}
	for i := range 12 {
		data[fmt.Sprintf("setting-%02d.properties", i)] = "value"
	}
	o.Object["data"] = data
	o.SetLabels(map[string]string{
		"app.kubernetes.io/name": "bench", "app.kubernetes.io/instance": "bench-production", "app.kubernetes.io/version": "1.2.3",
		"app.kubernetes.io/component": "settings", "app.kubernetes.io/part-of": "bench", "app.kubernetes.io/managed-by": "bench",
	})
	o.SetAnnotations(map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": `{"apiVersion":"v1","kind":"ConfigMap","data":{` + strings.Repeat(`"setting.properties":"value",`, 24) + `}}`,
		"meta.helm.sh/release-name":                        "bench",
		"meta.helm.sh/release-namespace":                   "bench-production",
		"checksum/config":                                  strings.Repeat("0123456789abcdef", 4),
	})
}

// memory compares how much memory each collector keeps for an object. Both run in a process of their own against the same
// server, so that memory which grows with the number of objects is theirs.
func (b *bench) memory(ctx context.Context) error {
	dir, err := b.newDir()
	if err != nil {
		return err
	}
	return b.with(ctx, dir, []string{withoutCollector}, func(s *server) error {
		empty := map[string]heap{}
		made := 0
		for _, times := range []int{0, 5, 50} {
			n := times * b.objects
			if n > made {
				ns, err := b.namespace(ctx, s)
				if err != nil {
					return err
				}
				say("  creating %d objects", n-made)
				if err := s.create(ctx, configMaps, ns, groups(n-made), dressed); err != nil {
					return err
				}
				if made == 0 {
					if err := b.reportSize(ctx, s, ns); err != nil {
						return err
					}
				}
				made = n
			}
			for _, who := range []string{own, upstream} {
				h, err := b.heapOf(ctx, s, who)
				if err != nil {
					return fmt.Errorf("%s: %w", who, err)
				}
				if n == 0 {
					empty[who] = h
					continue
				}
				var limit *budget
				if who == own {
					limit = atMost(600)
				}
				b.report.add("memory", fmt.Sprintf("%s, live heap, %d objects", who, n), grown(empty[who].Live, h.Live)/float64(n), "B/object", limit)
				b.report.add("memory", fmt.Sprintf("%s, RssAnon, %d objects", who, n), grown(empty[who].Resident, h.Resident)/float64(n), "B/object", nil)
			}
		}
		return nil
	})
}

func grown(before, after uint64) float64 { return float64(after) - float64(before) }

// heapOf runs a collector until it has read everything and returns its heap.
func (b *bench) heapOf(ctx context.Context, s *server, who string) (h heap, err error) {
	ns, err := b.namespace(ctx, s)
	if err != nil {
		return heap{}, err
	}
	c, err := s.collector(who)
	if err != nil {
		return heap{}, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := s.barrier(ctx, configMaps, ns); err != nil {
		return heap{}, err
	}
	return c.heap()
}

// reportSize says how large the metadata of the objects is.
func (b *bench) reportSize(ctx context.Context, s *server, ns string) error {
	list, err := s.meta.Resource(configMaps.gvr).Namespace(ns).List(ctx, metav1.ListOptions{Limit: 100})
	if err != nil {
		return err
	}
	total, managed := 0, 0
	for _, o := range list.Items {
		raw, err := json.Marshal(o.ObjectMeta)
		if err != nil {
			return err
		}
		fields, err := json.Marshal(o.ManagedFields)
		if err != nil {
			return err
		}
		total, managed = total+len(raw), managed+len(fields)
	}
	b.report.add("memory", "an object's metadata, as JSON", float64(total)/float64(len(list.Items)), "B", nil)
	b.report.add("memory", "its managedFields", float64(managed)/float64(len(list.Items)), "B", nil)
	return nil
}

// serverMemory follows the whole server's memory through a load.
func (b *bench) serverMemory(ctx context.Context) error {
	dir, err := b.newDir()
	if err != nil {
		return err
	}
	n := 10 * b.objects
	note := func(s *server, what string, limit *budget) error {
		m, err := s.rest(ctx)
		if err != nil {
			return err
		}
		b.report.add("server", what+", RssAnon", float64(m.anon)/megabyte, "MiB", limit)
		b.report.add("server", what+", RssFile", float64(m.file)/megabyte, "MiB", nil)
		return nil
	}
	err = b.with(ctx, dir, nil, func(s *server) error {
		if err := note(s, "idle", atMost(130)); err != nil {
			return err
		}
		ns, err := b.namespace(ctx, s)
		if err != nil {
			return err
		}
		items := flat(n - 1)
		if err := s.create(ctx, configMaps, ns, items, small); err != nil {
			return err
		}
		m, err := memoryOf(s.cmd.Process.Pid)
		if err != nil {
			return err
		}
		b.report.add("server", fmt.Sprintf("just after %d objects were made, RssAnon", n), float64(m.anon)/megabyte, "MiB", nil)
		return note(s, fmt.Sprintf("at rest with %d objects", n), atMost(180))
	})
	if err != nil {
		return err
	}
	return b.with(ctx, dir, nil, func(s *server) error {
		if err := note(s, fmt.Sprintf("started with %d objects", n), atMost(180)); err != nil {
			return err
		}
		ns := fmt.Sprintf("bench-%d", b.spaces)
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
		m, err := memoryOf(s.cmd.Process.Pid)
		if err != nil {
			return err
		}
		b.report.add("server", "just after all were deleted, RssAnon", float64(m.anon)/megabyte, "MiB", nil)
		return note(s, "at rest after all were deleted", nil)
	})
}
