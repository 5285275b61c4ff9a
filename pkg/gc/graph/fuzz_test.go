package graph

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/tests/size"
)

// FuzzGraph reads bytes as a history. After every step it checks the graph's
// invariants and compares it with the naive model.
func FuzzGraph(f *testing.F) {
	f.Add([]byte{})
	// Hand-made: owner, dependent, end, late read; twins; a resource that leaves.
	f.Add([]byte("\x00\x01\x00\x00\x00\x01\x01\x01\x02\x00\x01\x00\x04\x00\x00\x01"))
	f.Add([]byte("\x00\x01\x10\x03\x00\x10\x05\x02\x01\x06\x01\x06\x07\x01"))
	for seed := range uint64(64) {
		b := make([]byte, 16+seed*16)
		r := rand.New(rand.NewPCG(seed, 0))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h := newHistory(b)
		for len(h.in) > 0 {
			h.step()
			if err := h.compare(); err != nil {
				t.Fatalf("%v\nafter:\n  %s", err, strings.Join(h.log, "\n  "))
			}
		}
	})
}

// TestRandomHistories makes the fuzz target's comparison over histories that are
// long enough for objects to come back.
func TestRandomHistories(t *testing.T) {
	n, steps := size.Of(20, 100, 1000), 0
	for seed := range uint64(n) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := make([]byte, 1000)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		h := newHistory(b)
		for len(h.in) > 0 {
			h.step()
			if err := h.compare(); err != nil {
				t.Fatalf("seed %d: %v\nafter:\n  %s", seed, err, strings.Join(h.log, "\n  "))
			}
			steps++
		}
	}
	size.Power(t, fmt.Sprintf("histories=%d steps=%d", n, steps))
}

// The values that histories are made of: few, so that they coincide.
var (
	fuzzUIDs       = []types.UID{"a", "b", "c", "d", "e"}
	fuzzNames      = []string{"a", "b"}
	fuzzNamespaces = []string{"n", "m", ""}
	fuzzVersions   = []string{"v1", "ex.io/v2", "ex.io/v1", "old.io/v1", "ex.io/v9", "a/b/c", ""}
	fuzzKinds      = []string{"Thing", "Widget", "Cluster", "None"}
	fuzzCatalogs   = func() [][]*Resource {
		oneVersion, rescoped, moved := *widgets, *widgets, *clusters
		oneVersion.Versions = []string{"v1"}
		rescoped.Namespaced = false
		moved.Namespaced = true
		return [][]*Resource{
			universe,
			{things, clusters, mirrors},
			{things, &oneVersion, mirrors},
			{&rescoped, things, &moved},
			nil,
		}
	}()
)

// history applies operations to a graph and to the naive model alike.
type history struct {
	in    []byte
	graph *Graph
	naive *naive
	log   []string
	last  string // how the results of the last step differ; empty if they do not
}

func newHistory(b []byte) *history {
	h := &history{in: b, graph: New(), naive: newNaive()}
	h.graph.SetCatalog(NewCatalog(universe), epoch)
	h.naive.setCatalog(universe, epoch)
	for _, r := range universe {
		h.graph.AddResource(r.GroupResource(), r.GroupKind(), epoch)
		h.naive.addResource(r, epoch)
	}
	return h
}

// next reads a choice among n.
func (h *history) next(n int) int {
	if len(h.in) == 0 {
		return 0
	}
	b := h.in[0]
	h.in = h.in[1:]
	return int(b) % n
}

func choose[T any](h *history, from []T) T { return from[h.next(len(from))] }

func (h *history) record() *Record {
	// As a rule an object keeps its name and namespace for ever: the UID decides
	// most choices.
	rec := &Record{UID: choose(h, fuzzUIDs), ResourceVersion: "1"}
	rec.Name = fuzzNames[int(rec.UID[0])%len(fuzzNames)]
	rec.Namespace = fuzzNamespaces[int(rec.UID[0])%len(fuzzNamespaces)]
	flags := h.next(256)
	rec.Deleting, rec.Foreground, rec.Orphan = flags&1 > 0, flags&2 > 0, flags&12 == 12
	if flags&0xf0 == 0xf0 {
		rec.Name, rec.Namespace = choose(h, fuzzNames), choose(h, fuzzNamespaces)
	}
	for range h.next(4) {
		rec.References = append(rec.References, h.reference())
	}
	return rec
}

func (h *history) reference() Reference {
	uid := choose(h, fuzzUIDs)
	ref := Reference{UID: uid, Name: fuzzNames[int(uid[0])%len(fuzzNames)]}
	switch c := h.next(16); {
	case c < 10: // right, for one resource or another
		r := universe[c%len(universe)]
		ref.APIVersion, ref.Kind = apiVersion(r, r.Versions[0]), r.Kind
	default:
		ref.APIVersion, ref.Kind, ref.Name = choose(h, fuzzVersions), choose(h, fuzzKinds), choose(h, fuzzNames)
	}
	if h.next(3) == 0 {
		ref.BlockOwnerDeletion = True
	}
	return ref
}

// step applies one operation to both and notes whether they return different keys.
func (h *history) step() {
	var got, want []Key
	now := epoch.Add(time.Duration(len(h.log)) * time.Second)
	note := func(format string, args ...any) { h.log = append(h.log, fmt.Sprintf(format, args...)) }
	r := universe[h.next(len(universe))]
	gr := r.GroupResource()
	switch op := h.next(22); op {
	case 0, 1, 2, 3, 4, 5:
		rec := h.record()
		note("upsert %s %+v", r.Name, *rec)
		got, want = h.graph.Upsert(gr, rec, now), h.naive.upsert(gr, rec, now)
	case 6, 7, 8:
		rec := h.record()
		note("deleted %s %+v", r.Name, *rec)
		got, want = h.graph.Deleted(gr, rec, now), h.naive.deleted(gr, rec)
	case 9, 10:
		uid := choose(h, fuzzUIDs)
		note("vanished %s %s", r.Name, uid)
		got, want = h.graph.Vanished(gr, uid), h.naive.vanished(gr, uid)
	case 11, 12, 13:
		uid := choose(h, fuzzUIDs)
		at := Coordinates{Group: r.Group, Kind: r.Kind, Namespace: choose(h, fuzzNamespaces), Name: choose(h, fuzzNames)}
		seen := epoch.Add(time.Duration(h.next(3)))
		fact := []Fact{{State: Absent}, {State: Present, Seen: seen}, {State: Present, Seen: seen, Waiting: true}}[h.next(3)]
		note("learn %s %+v %+v", uid, at, fact)
		h.graph.Learn(uid, at, fact)
		h.naive.learn(uid, at, fact)
	case 14:
		c := choose(h, fuzzCatalogs)
		note("catalog of %d", len(c))
		got, want = h.graph.SetCatalog(NewCatalog(c), now), h.naive.setCatalog(c, now)
	case 16:
		rec := h.record()
		note("confirm %s %+v", r.Name, *rec)
		got, want = h.graph.Confirm(key(r, rec.UID), rec, now), h.naive.confirm(key(r, rec.UID), rec, now)
	case 17:
		note("suspend %s", r.Name)
		h.graph.Suspend(gr, now)
		h.naive.note(h.naive.suspended, gr, true, now)
	case 20:
		note("listed %s", r.Name)
		h.graph.Listed(gr, now)
		h.naive.note(h.naive.listed, gr, true, now)
	case 21:
		readable := h.next(2) == 0
		note("readable %s: %v", r.Name, readable)
		h.graph.SetReadable(gr, readable, now)
		h.naive.note(h.naive.unreadable, gr, !readable, now)
	case 18, 19:
		var shown []types.UID
		for range h.next(4) {
			shown = append(shown, choose(h, fuzzUIDs))
		}
		note("shown of %s: %v", r.Name, shown)
		got = h.graph.VanishedExcept(gr, func(uid types.UID) bool { return slices.Contains(shown, uid) })
		want = h.naive.vanishedExcept(gr, shown)
	case 15:
		if h.next(2) == 0 {
			note("remove %s", r.Name)
			got, want = h.graph.RemoveResource(gr, now), h.naive.removeResource(gr, now)
		} else {
			note("add %s", r.Name)
			h.graph.AddResource(gr, r.GroupKind(), now)
			h.naive.addResource(r, now)
		}
	}
	h.last = ""
	if !slices.Equal(keySet(got), keySet(want)) {
		h.last = fmt.Sprintf("to reconsider: the graph says %v, the model %v", keySet(got), keySet(want))
	}
}

// compare checks the graph's own invariants and compares it with the model.
func (h *history) compare() error {
	if err := h.graph.Check(); err != nil {
		return err
	}
	if h.last != "" {
		return fmt.Errorf("%s", h.last)
	}
	if got, want := h.graph.Stats(), h.naive.stats(); got != want {
		return fmt.Errorf("stats: the graph says %+v, the model %+v", got, want)
	}
	for _, r := range universe {
		gr := r.GroupResource()
		count := 0
		for _, uid := range fuzzUIDs {
			k := Key{Resource: gr, UID: uid}
			got, ok := h.graph.View(k)
			want, wantOK := h.naive.view(k)
			var blockers []Key
			for _, b := range h.graph.Blockers(k, 100) {
				blockers = append(blockers, b.Key)
			}
			if want := h.naive.blockers(k); !slices.Equal(keySet(blockers), keySet(want)) || (got.Blocking > 0) != (len(want) > 0) {
				return fmt.Errorf("%v waits for: the graph says %+v, the model %v", k, blockers, want)
			}
			if since := h.naive.since[k]; got.Wait.Since != since {
				return fmt.Errorf("%v waits since: the graph says %v, the model %v", k, got.Wait.Since, since)
			}
			if s, ok := h.graph.Survey(k); ok && s.Descendants != h.naive.descendants(k) {
				return fmt.Errorf("below %v: the graph says %d, the model %d", k, s.Descendants, h.naive.descendants(k))
			}
			if ok != wantOK || !sameView(got, want) {
				return fmt.Errorf("view of %v: the graph says %v %+v, the model %v %+v", k, ok, got, wantOK, want)
			}
			if ok {
				count++
			}
		}
		if n := h.graph.Count(gr); n != count {
			return fmt.Errorf("the graph counts %d %s, the model %d", n, r.Name, count)
		}
	}
	// Every fact, whether or not an observed object declares its place.
	for _, namespace := range fuzzNamespaces {
		p := probes[namespace]
		if got, want := h.graph.ViewOf(things.GroupResource(), p), h.naive.viewOf(things.GroupResource(), p); !sameView(got, want) {
			for i := range got.Owners {
				if got.Owners[i] != want.Owners[i] {
					return fmt.Errorf("seen from %q: the graph says %+v, the model %+v", namespace, got.Owners[i], want.Owners[i])
				}
			}
			return fmt.Errorf("seen from %q: the graph says %+v, the model %+v", namespace, got, want)
		}
	}
	return nil
}

func sameView(a, b View) bool {
	return a.Key == b.Key && a.Resource == b.Resource && a.Record == b.Record && a.HasDependents == b.HasDependents && a.Missing == b.Missing && a.SyncedSince.Equal(b.SyncedSince) &&
		slices.Equal(a.Owners, b.Owners)
}

// probes declare every right reference there can be, with one object per namespace.
var probes = func() map[string]*Record {
	all := map[string]*Record{}
	for _, namespace := range fuzzNamespaces {
		rec := &Record{Namespace: namespace, Name: "probe", UID: "probe"}
		for _, uid := range fuzzUIDs {
			for _, name := range fuzzNames {
				for _, r := range universe {
					rec.References = append(rec.References, Reference{APIVersion: apiVersion(r, r.Versions[0]), Kind: r.Kind, Name: name, UID: uid})
				}
			}
		}
		all[namespace] = rec
	}
	return all
}()
