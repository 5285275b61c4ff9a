package gc

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// search finds the dependents of owners by listing live. Owners of one namespace that
// ask while a pass over it is under way share the next one; owners of other namespaces
// do not wait for it.
type search struct {
	catalog func() *graph.Catalog
	list    func(ctx context.Context, r *graph.Resource, namespace string, each func(*graph.Record)) error
	// holds returns why something that may hold dependents cannot be listed by anybody;
	// nil if nothing is known to.
	holds func() error

	// mu protects byNamespace. A searched namespace is kept while somebody asks.
	mu          sync.Mutex
	byNamespace map[string]*searched
}

// searched is one namespace, or all of them, that is being searched.
type searched struct {
	asking int // protected by search.mu
	// running holds one token while somebody makes the pass, and protects failed. Waiting
	// for it ends with a context, which a mutex does not offer.
	running chan struct{}
	failed  schema.GroupResource // what the last pass could not list

	// mu protects next: who takes part in the pass after the one under way.
	mu   sync.Mutex
	next []*question
}

// question asks for the dependents of one owner.
type question struct {
	uid      types.UID
	answered bool // read and written while running is held
	found    []graph.Node
	err      error
}

// dependents lists the objects that name uid as their owner, by a pass over all
// monitored resources that begins after the call; of an owner with a namespace
// only there. An error means that a resource could not be read.
func (s *search) dependents(ctx context.Context, uid types.UID, namespace string) ([]graph.Node, error) {
	in := s.enter(namespace)
	defer s.leave(namespace, in)
	q := &question{uid: uid}
	in.mu.Lock()
	in.next = append(in.next, q)
	in.mu.Unlock()

	select {
	case in.running <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-in.running }()
	if !q.answered {
		in.mu.Lock()
		all := in.next
		in.next = nil
		in.mu.Unlock()
		s.pass(ctx, in, namespace, all)
	}
	return q.found, q.err
}

func (s *search) enter(namespace string) *searched {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.byNamespace[namespace]
	if in == nil {
		in = &searched{running: make(chan struct{}, 1)}
		if s.byNamespace == nil {
			s.byNamespace = map[string]*searched{}
		}
		s.byNamespace[namespace] = in
	}
	in.asking++
	return in
}

// leave forgets a namespace that nobody asks about, unless something in it could not be
// listed.
func (s *search) leave(namespace string, in *searched) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.asking--; in.asking == 0 && in.failed == (schema.GroupResource{}) {
		delete(s.byNamespace, namespace)
	}
}

// pass lists every monitored resource once and answers the questions. It begins with
// what could not be listed last time: as long as that lasts, it costs one call.
func (s *search) pass(ctx context.Context, in *searched, namespace string, questions []*question) {
	byUID := make(map[types.UID][]*question, len(questions))
	for _, q := range questions {
		q.answered = true
		byUID[q.uid] = append(byUID[q.uid], q)
	}
	fail := func(err error) {
		for _, q := range questions {
			q.err = err
		}
	}
	resources := slices.Clone(s.catalog().Resources())
	if i := slices.IndexFunc(resources, func(r *graph.Resource) bool { return r.GroupResource() == in.failed }); i > 0 {
		resources[0], resources[i] = resources[i], resources[0]
	}
	in.failed = schema.GroupResource{}
	if err := s.holds(); err != nil {
		fail(err)
		return
	}
	for _, r := range resources {
		if !r.Monitored || !r.Namespaced && namespace != "" {
			continue
		}
		err := s.list(ctx, r, namespace, func(rec *graph.Record) {
			for i, ref := range rec.References {
				for _, q := range byUID[ref.UID] {
					first := slices.IndexFunc(rec.References, func(r graph.Reference) bool { return r.UID == ref.UID })
					if first == i {
						q.found = append(q.found, graph.Node{Key: graph.Key{Resource: r.GroupResource(), UID: rec.UID}, Record: rec})
					}
				}
			}
		})
		if err != nil {
			in.failed = r.GroupResource()
			fail(err)
			return
		}
	}
}
