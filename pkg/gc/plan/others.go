package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// outcome is the result of a run for each thing, by its rank. A run itself holds a copy of
// all objects, which is too much to keep for every schedule.
type outcome []ending

type ending struct {
	fate            Fate
	loses, unblocks []graph.Reference
}

func (r *run) outcome() outcome {
	all := make(outcome, len(r.things))
	for i, t := range r.things {
		all[i] = ending{r.fate(t), t.loses, t.unblocks}
	}
	return all
}

// others returns the outcomes of further schedules.
func (w *World) others(p metav1.DeletionPropagation, rules Rules, now time.Time, all []schedule) []outcome {
	outcomes := make([]outcome, len(all))
	for i, s := range all {
		if w.bound != nil && w.bound.err != nil {
			return nil
		}
		outcomes[i] = w.run(p, rules, s, now).outcome()
	}
	return outcomes
}

// onlyOrphans is true if all that happens is that one object goes, and that its dependents
// lose their references to it and keep those to owners that stay. Then each schedule comes
// to the same.
func (r *run) onlyOrphans() bool {
	var owner *thing
	for _, t := range r.things {
		if t.rec.Deleting || t.gone {
			if owner != nil || !t.gone || t.first.Deleting || t.timedOut || t.contents != nil {
				return false
			}
			owner = t
		}
		if len(t.keys) > 1 || len(r.byUID[t.first.UID]) > 1 {
			return false
		}
	}
	if owner == nil {
		return false
	}
	for _, t := range r.things {
		if t != owner && t.touched && !r.loses(t, owner.first.UID) {
			return false
		}
	}
	return true
}

// loses is true if a thing loses nothing but references to one owner, and all its others
// stay.
func (r *run) loses(t *thing, owner types.UID) bool {
	for i := range t.loses {
		if t.loses[i].UID != owner {
			return false
		}
	}
	v, ok := r.g.View(t.keys[0])
	if !ok || len(t.unblocks) > 0 {
		return false
	}
	for i := range v.Owners {
		if decide.Judge(&v.Owners[i], v.Record.Namespace, r.now) != decide.Solid {
			return false
		}
	}
	return true
}
