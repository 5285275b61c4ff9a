package scenarios

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/reap-dev/reap/pkg/gc"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/fakeapi/rig"
)

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var s Scenario
			d := yaml.NewDecoder(bytes.NewReader(raw))
			d.KnownFields(true)
			if err := d.Decode(&s); err != nil {
				t.Fatal(err)
			}
			// In a bubble no goroutine outlives its test, and a sweep's delay costs nothing.
			rig.InBubble(t, func(t *testing.T, r *rig.Rig) {
				now := &faults{}
				for i, step := range s.Steps {
					play(t, r, now, step)
					if t.Failed() {
						t.Fatalf("%s\nfailed in step %d: %s", s.Says, i+1, step.Say)
					}
				}
			})
		})
	}
}

// play takes a step and compares the outcome.
func play(t *testing.T, r *rig.Rig, now *faults, s Step) {
	calls, revision := len(r.Calls(0)), r.Revision()
	if err := act(r, now, s); err != nil {
		t.Fatal(err)
	}
	for _, form := range s.Await {
		times := 1
		if i := strings.LastIndex(form, " x"); i > 0 {
			if n, err := strconv.Atoi(form[i+2:]); err == nil {
				form, times = form[:i], n
			}
		}
		r.UntilCalls(calls, form, times)
	}
	if r.Collector() != nil {
		if s.Await == nil || s.Rest {
			r.Rest()
			compareStats(t, r, now)
		}
		r.Check()
	}
	if s.Objects != nil {
		var have []string
		for _, o := range r.Objects() {
			if o.Resource.Name != "customresourcedefinitions" {
				have = append(have, text(o))
			}
		}
		compare(t, "objects", have, s.Objects)
	}
	if s.Graph != nil {
		have := r.Collector().Graph().Stats()
		if want := (graph.Stats{Nodes: s.Graph.Nodes, Edges: s.Graph.Edges, Virtual: s.Graph.Virtual}); have != want {
			t.Errorf("the graph counts %+v, want %+v", have, want)
		}
	}
	if s.Calls != nil {
		var have, want []string
		for _, c := range s.Calls {
			if !strings.HasPrefix(c, "may ") {
				want = append(want, c)
			}
		}
		missing := slices.Clone(want)
		for _, c := range r.Calls(calls) {
			if c.ByMonitor() || c.Resource == "events" {
				continue
			}
			call := c.String()
			if i := slices.Index(missing, call); i >= 0 {
				missing = slices.Delete(missing, i, i+1)
			} else if slices.Contains(s.Calls, "may "+call) {
				continue // an optional call
			}
			have = append(have, call)
		}
		compare(t, "calls", have, want)
	}
	if s.Gone != nil {
		have := []string{}
		for _, o := range r.Gone(revision) {
			have = append(have, nameOf(o))
		}
		if !slices.Equal(have, s.Gone) {
			t.Errorf("ended in the order %v, want %v", have, s.Gone)
		}
	}
	if s.Events != nil {
		// Events are written asynchronously, and never twice.
		r.Until("events", func() bool { return len(r.Warnings()) >= len(s.Events) })
		var have []string
		for _, e := range r.Warnings() {
			o := e.InvolvedObject
			have = append(have, fmt.Sprintf("%s %s/%s x%d", e.Reason, o.Kind, o.Name, max(e.Count, 1)))
		}
		compare(t, "events", have, s.Events)
	}
}

// compareStats compares the graph's counts with those of the store. Only objects that the
// faults hide may be missing from the graph.
func compareStats(t *testing.T, r *rig.Rig, now *faults) {
	t.Helper()
	var want graph.Stats
	exists, named := map[string]bool{}, map[string]bool{}
	for _, o := range r.Objects() {
		if shown := r.Collector().Graph().Versions(o.Resource.GroupResource()); shown[o.UID] == "" && now.hide(r, o.Resource) {
			continue
		}
		exists[string(o.UID)] = true
		want.Nodes++
		want.Edges += len(o.OwnerReferences)
		for _, ref := range o.OwnerReferences {
			named[string(ref.UID)] = true
		}
	}
	for uid := range named {
		if !exists[uid] {
			want.Virtual++
		}
	}
	if have := r.Collector().Graph().Stats(); have != want {
		t.Errorf("the graph counts %+v, the store %+v", have, want)
	}
}

func compare(t *testing.T, what string, have, want []string) {
	t.Helper()
	have, want = slices.Sorted(slices.Values(have)), slices.Sorted(slices.Values(want))
	if !slices.Equal(have, want) {
		t.Errorf("%s:\n  %s\nwant:\n  %s", what, strings.Join(have, "\n  "), strings.Join(want, "\n  "))
	}
}

// act takes the actions of a step.
func act(r *rig.Rig, now *faults, s Step) error {
	var errs []error
	each := func(texts []string, do func(p parsed) error) {
		for _, text := range texts {
			p, err := parse(text)
			if err == nil {
				err = do(p)
			}
			errs = append(errs, err)
		}
	}
	if s.Fault != nil || s.Meanwhile != nil {
		var quicker []parsed
		each(s.Meanwhile, func(p parsed) error { quicker = append(quicker, p); return nil })
		errs = append(errs, now.begin(r, s.Fault, quicker))
	}
	for _, text := range s.Define {
		errs = append(errs, define(r, text))
	}
	each(s.Create, func(p parsed) error { return r.Create(p.resource, p.meta) })
	each(s.Update, func(p parsed) error { return update(r, p) })
	each(s.Ask, func(p parsed) error { return r.Ask(p.resource, p.meta.Namespace, p.meta.Name) })
	each(s.Observe, func(p parsed) error { return r.Observe(p.resource, p.meta.Namespace, p.meta.Name) })
	each(s.Delete, func(p parsed) error {
		return r.Delete(p.resource, p.meta.Namespace, p.meta.Name, deleteOptions(p.words))
	})
	if s.Relist != nil {
		r.Compact()
		for _, resource := range s.Relist {
			r.DropWatches(resource)
		}
	}
	switch s.Collector {
	case "":
	case "start":
		r.Start(nil)
	case "start without cycle detection":
		r.Start(func(o *gc.Options) { o.NoCycleDetection = true })
	case "start with sweeps":
		r.Start(func(o *gc.Options) { o.Resync = 50 * time.Millisecond })
	case "stop":
		r.Stop()
	case "pause", "resume":
		r.Pause(s.Collector == "pause")
	default:
		errs = append(errs, fmt.Errorf("%q is nothing that a collector can do", s.Collector))
	}
	return errors.Join(errs...)
}
