package model

import (
	"testing"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/bubble"
)

// Short histories that once came out wrong.

// live takes the steps of a history; each must be possible.
func live(t *testing.T, m *model, history ...action) {
	t.Helper()
	for _, a := range history {
		if !m.apply(a) {
			t.Fatalf("cannot %s", a)
		}
	}
}

// withBoth runs a history with the copies and with the real code.
func withBoth(t *testing.T, history func(*testing.T, *model)) {
	t.Run("copies", func(t *testing.T) { history(t, newModel(1, 1)) })
	t.Run("real code", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) {
			m := newReal(1, 1, decide.Timeout{})
			defer m.close()
			history(t, m)
		})
	})
}

// Two groups serve one storage. The dependent names its owner under one group, and the owner
// must not be released under the other.
func TestDependentBlocksThroughEitherGroup(t *testing.T) { withBoth(t, twinBlocks) }

func twinBlocks(t *testing.T, m *model) {
	ref := reference(mirrors, "v1", object{name: "o", uid: "o"})
	ref.BlockOwnerDeletion = graph.True
	live(t, m,
		action{op: opCreate, kind: betas, namespace: "n", name: "o", uid: "o"},
		action{op: opCreate, kind: alphas, namespace: "n", name: "d", uid: "d", refs: []graph.Reference{ref}, held: true},
		action{op: opResync},
		action{op: opDelete, uid: "o", policy: foreground},
		action{op: opPause, n: 4},
	)
	m.settle()
	m.elapse()
	if m.server.objects["o"] == nil {
		t.Error("the owner is gone, and its blocking dependent is there")
	}
}

// TestLostAnswerDoesNotForgetOrphaning: the finalizer is removed, and the owner is gone, but
// the answer to that patch is lost. Dependents that appear afterwards must stay all the same.
// The same holds for two attempts at an owner that two resources show, if the second attempt
// finds it gone.
func TestLostAnswerDoesNotForgetOrphaning(t *testing.T) { withBoth(t, lostAnswer) }

func lostAnswer(t *testing.T, m *model) {
	o := object{name: "o", uid: "o"}
	m.server.served[mirrors] = false
	live(t, m,
		action{op: opCreate, kind: betas, namespace: "n", name: "o", uid: "o"},
		action{op: opResync},
		action{op: opDelete, uid: "o", policy: orphan},
		action{op: opPause, n: 4},
	)
	k := graph.Key{Resource: betas.GroupResource(), UID: "o"}
	live(t, m, action{op: opBegin, key: k}, action{op: opOrphan, key: k})
	for !releasesNext(m.workers[0].worker) {
		live(t, m, action{op: opStep})
	}
	live(t, m,
		// It is created after the last search and before the owner goes.
		action{op: opCreate, kind: alphas, namespace: "n", name: "d", uid: "d", refs: []graph.Reference{reference(betas, "v1", o)}},
		action{op: opStep, held: true},
	)
	m.settle()
	m.elapse()
	if m.server.objects["d"] == nil {
		t.Error("the dependent of an orphaned owner is gone")
	}
}

// releasesNext reports whether the next call of a worker removes a finalizer.
func releasesNext(w worker) bool {
	switch w := w.(type) {
	case *attempt:
		return w.next == callRelease && !w.answered
	case *turn:
		return w.calls[0].removesFinalizer() && !w.calls[0].answered
	}
	panic("a worker of another kind")
}
