package decide

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/size"
)

// evidence is a UID at a place.
type evidence struct {
	uid types.UID
	at  graph.Coordinates
}

// TestDeleteNeedsEvidenceAtItsOwnCoordinates drives a real graph through random histories
// and records every proof that the graph was given. Delete and Drop must always rest on a
// proof for each reference's UID at that reference's own coordinates, and no monitor may
// show the owner there.
func TestDeleteNeedsEvidenceAtItsOwnCoordinates(t *testing.T) {
	steps := size.Of(30_000, 300_000, 1_000_000)
	r := rand.New(rand.NewPCG(5, 6))
	deletes, drops, waited := 0, 0, 0
	for done := 0; done < steps; {
		w := newEvidenceWorld(r)
		for range 40 {
			done++
			w.step()
			for _, k := range w.keys() {
				v, ok := w.g.View(k)
				if !ok {
					t.Fatalf("%v is not observed", k)
				}
				d := Decide(&v, Options{}, now)
				refs := d.Drop
				if d.Action == Delete {
					refs = v.Record.References
					deletes++
				} else if d.Action == Drop {
					drops++
				}
				if d.Reason == OwnerWaiting {
					waited++
				}
				for _, ref := range refs {
					if err := w.proved(ref, v.Record.Namespace); err != nil {
						t.Fatalf("%s %v: %v\nafter:\n%s", d.Action, k, err, w.log)
					}
				}
			}
		}
	}
	size.Power(t, fmt.Sprintf("steps=%d deletes=%d drops=%d", steps, deletes, drops))
	if deletes < steps/100 || drops < steps/1000 || waited < steps/1000 {
		t.Errorf("%d deletes, %d of them for waiting owners, and %d drops in %d steps: the search is blind there", deletes, waited, drops, steps)
	}
}

// evidenceWorld is a graph with two kinds, one of each scope.
type evidenceWorld struct {
	r       *rand.Rand
	g       *graph.Graph
	served  bool // whether both kinds are served; otherwise neither is
	objects map[graph.Key]*graph.Record
	proofs  map[evidence]bool
	// waits holds the owners that a live read has just found in foreground deletion and
	// that nothing has contradicted since.
	waits map[evidence]bool
	// waited holds the owners that an older read found in foreground deletion. Such a read
	// counts once a monitor shows the same.
	waited  map[evidence]bool
	version int
	log     string
}

func newEvidenceWorld(r *rand.Rand) *evidenceWorld {
	w := &evidenceWorld{r: r, g: graph.New(), served: true, objects: map[graph.Key]*graph.Record{}, proofs: map[evidence]bool{}, waits: map[evidence]bool{}, waited: map[evidence]bool{}, version: 10}
	w.g.SetCatalog(graph.NewCatalog([]*graph.Resource{namespaced, global}), now)
	for _, res := range []*graph.Resource{namespaced, global} {
		w.g.AddResource(res.GroupResource(), res.GroupKind(), now)
	}
	return w
}

func (w *evidenceWorld) keys() []graph.Key {
	var keys []graph.Key
	for k := range w.objects {
		keys = append(keys, k)
	}
	return keys
}

func pick[T any](w *evidenceWorld, from ...T) T { return from[w.r.IntN(len(from))] }

func (w *evidenceWorld) step() {
	res := pick(w, namespaced, namespaced, global)
	gr := res.GroupResource()
	rec := &graph.Record{UID: pick[types.UID](w, "a", "b", "c", "d")}
	rec.Name = string(rec.UID)
	w.version++
	rec.ResourceVersion = strconv.Itoa(w.version)
	if res.Namespaced {
		rec.Namespace = pick(w, "n", "m")
		for k, o := range w.objects {
			if k.UID == rec.UID && k.Resource == gr {
				rec.Namespace = o.Namespace // an object does not move
			}
		}
	}
	k := graph.Key{Resource: gr, UID: rec.UID}
	place := graph.Coordinates{Kind: res.Kind, Namespace: rec.Namespace, Name: rec.Name}
	note := func(what string) { w.log += fmt.Sprintf("  %s %s %+v\n", what, res.Name, *rec) }
	switch w.r.IntN(12) {
	case 0, 1, 2, 3:
		for range w.r.IntN(3) {
			uid := pick[types.UID](w, "a", "b", "c", "d")
			rec.References = append(rec.References, graph.Reference{
				APIVersion: pick(w, "v1", "v1", "v1", "v2"), Kind: pick(w, "Thing", "Thing", "Global", "None"),
				Name: pick(w, string(uid), string(uid), "a"), UID: uid,
			})
		}
		rec.Deleting, rec.Foreground = w.r.IntN(3) == 0, w.r.IntN(2) == 0
		note("show")
		w.g.Upsert(gr, rec, now)
		w.objects[k] = rec
		switch e := (evidence{rec.UID, place}); {
		case !rec.WaitingForDependents():
			delete(w.waits, e) // the monitor is newer
			delete(w.waited, e)
		case w.waited[e]:
			w.waits[e] = true
		}
	case 4, 5, 6:
		note("end")
		w.g.Deleted(gr, rec, now)
		delete(w.waits, evidence{rec.UID, place})
		delete(w.waited, evidence{rec.UID, place})
		delete(w.objects, k)
		w.proofs[evidence{rec.UID, place}] = true
	case 7, 8:
		note("vanish")
		w.g.Vanished(gr, rec.UID)
		if _, kept := w.g.View(k); !kept {
			delete(w.objects, k)
		}
	case 9, 10:
		rec.Name = pick(w, "a", rec.Name)
		place.Name = rec.Name
		fact := pick(w, absent, present(time.Second), present(2*RecheckAfter), waits(0), waits(2*time.Second))
		if fact.Waiting {
			fact.Version = rec.ResourceVersion
		}
		note(fmt.Sprintf("learn %d of", fact.State))
		w.g.Learn(rec.UID, place, fact)
		switch e := (evidence{rec.UID, place}); {
		case fact == absent:
			w.proofs[e] = true
		case fact.Waiting && fact.Seen.Equal(now):
			w.waits[e], w.waited[e] = true, true
		case fact.Waiting:
			w.waited[e] = true
		}
	case 11:
		w.served = !w.served
		var all []*graph.Resource
		if w.served {
			all = []*graph.Resource{namespaced, global}
		}
		w.log += fmt.Sprintf("  served: %v\n", w.served)
		w.g.SetCatalog(graph.NewCatalog(all), now)
	}
}

// proved returns why a reference may not be judged dangling, or nil if it may.
func (w *evidenceWorld) proved(ref graph.Reference, namespace string) error {
	at := graph.Coordinates{Kind: ref.Kind, Name: ref.Name, Namespace: namespace}
	switch {
	case ref.Kind == "None":
		return fmt.Errorf("%+v: the kind is unknown", ref)
	case ref.APIVersion != "v1" && w.served:
		return fmt.Errorf("%+v: the version is unknown", ref)
	case ref.Kind == "Thing" && namespace == "":
		return fmt.Errorf("%+v: the reference is invalid", ref)
	case ref.Kind == "Global":
		at.Namespace = ""
	}
	if w.waits[evidence{ref.UID, at}] && (ref.Kind != "Thing" || namespace != "") && w.served {
		return nil
	}
	if !w.proofs[evidence{ref.UID, at}] {
		return fmt.Errorf("%+v: nothing was ever proved at %+v", ref, at)
	}
	if slices.ContainsFunc(w.keys(), func(k graph.Key) bool {
		o := w.objects[k]
		kind := namespaced.Kind
		if k.Resource == global.GroupResource() {
			kind = global.Kind
		}
		return o.UID == ref.UID && at == graph.Coordinates{Kind: kind, Namespace: o.Namespace, Name: o.Name}
	}) {
		return fmt.Errorf("%+v: a monitor shows the owner", ref)
	}
	return nil
}
