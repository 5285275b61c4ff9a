package gc

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// search finds the dependents of owners by listing live. Owners that ask while a
// pass is under way share the next one.
type search struct {
	// running is held by who makes the pass, and protects failed.
	running sync.Mutex
	failed  schema.GroupResource // what the last pass could not list

	// mu protects next: who takes part in the pass after the one under way.
	mu   sync.Mutex
	next []*question
}

// question asks for the dependents of one owner.
type question struct {
	uid       types.UID
	namespace string
	answered  bool // read and written while running is held
	found     []graph.Dependent
	err       error
}

// dependents lists the objects that name uid as their owner, by a pass over all
// monitored resources that begins after the call; of an owner with a namespace
// only there. An error means that a resource could not be read.
func (s *search) dependents(ctx context.Context, c *Collector, uid types.UID, namespace string) ([]graph.Dependent, error) {
	q := &question{uid: uid, namespace: namespace}
	s.mu.Lock()
	s.next = append(s.next, q)
	s.mu.Unlock()

	s.running.Lock()
	defer s.running.Unlock()
	if !q.answered {
		s.mu.Lock()
		all := s.next
		s.next = nil
		s.mu.Unlock()
		s.pass(ctx, c, all)
	}
	return q.found, q.err
}

// pass lists every monitored resource once and answers the questions. It begins with
// what could not be listed last time: as long as that lasts, it costs one call.
func (s *search) pass(ctx context.Context, c *Collector, questions []*question) {
	byUID := make(map[types.UID][]*question, len(questions))
	namespaces := map[string]bool{}
	for _, q := range questions {
		q.answered = true
		byUID[q.uid] = append(byUID[q.uid], q)
		namespaces[q.namespace] = true
	}
	if namespaces[""] {
		// Somebody asks for all of them.
		namespaces = map[string]bool{"": true}
	}
	resources := slices.Clone(c.graph.Catalog().Resources())
	if i := slices.IndexFunc(resources, func(r *graph.Resource) bool { return r.GroupResource() == s.failed }); i > 0 {
		resources[0], resources[i] = resources[i], resources[0]
	}
	s.failed = schema.GroupResource{}
	fail := func(err error) {
		for _, q := range questions {
			q.err = err
		}
	}
	if holds := c.observer.Holding(); len(holds) > 0 {
		var why []string
		for _, h := range holds {
			why = append(why, h.String())
		}
		fail(errors.New(strings.Join(why, "; ")))
		return
	}
	for _, r := range resources {
		if !r.Monitored || !r.Namespaced && !namespaces[""] {
			continue
		}
		for ns := range namespaces {
			err := c.actor.List(ctx, r.Preferred(), ns, func(rec *graph.Record) {
				asked := map[*question]bool{}
				for _, ref := range rec.References {
					for _, q := range byUID[ref.UID] {
						if !asked[q] {
							asked[q] = true
							q.found = append(q.found, graph.Dependent{Key: graph.Key{Resource: r.GroupResource(), UID: rec.UID}, Record: rec})
						}
					}
				}
			})
			if err != nil {
				s.failed = r.GroupResource()
				fail(err)
				return
			}
		}
	}
}
