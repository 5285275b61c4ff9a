package datastore

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/k3s-io/kine/pkg/server"

	"github.com/reap-dev/reap/tests/bubble"
)

// slowHistory is a database that takes its time to compact each revision.
type slowHistory struct {
	server.Dialect
	t         *testing.T
	each      time.Duration // for each revision
	sync      time.Duration // for each transaction
	compacted int64
	steps     []int64 // the revisions of each transaction that has compacted
}

func (h *slowHistory) BeginTx(context.Context, *sql.TxOptions) (server.Transaction, error) {
	return &slowTx{history: h, to: h.compacted}, nil
}

type slowTx struct {
	server.Transaction
	history *slowHistory
	to      int64
}

func (t *slowTx) GetCompactRevision(context.Context) (int64, error) { return t.history.compacted, nil }

func (t *slowTx) SetCompactRevision(_ context.Context, revision int64) error {
	t.to = revision
	return nil
}

func (t *slowTx) Compact(ctx context.Context, from, to int64) (int64, error) {
	select {
	case <-time.After(time.Duration(to-from)*t.history.each + t.history.sync):
		return to - from, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (t *slowTx) Insert(context.Context, string, bool, bool, int64, int64, []byte) (int64, error) {
	return 1, nil
}

func (t *slowTx) Commit() error {
	h := t.history
	if t.to < h.compacted {
		h.t.Errorf("the compacted revision goes back from %d to %d", h.compacted, t.to)
	}
	if t.to > h.compacted {
		h.steps = append(h.steps, t.to-h.compacted)
	}
	h.compacted = t.to
	return nil
}

func (*slowTx) Rollback() error { return nil }

// compactAsKine compacts a batch up to a revision, as kine v0.17.5 does.
func compactAsKine(ctx context.Context, d dialect, to int64) error {
	ctx, cancel := context.WithTimeout(ctx, driverConfig(Options{}, "sqlite://x").CompactTimeout)
	defer cancel()
	tx, err := d.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		return err
	}
	defer tx.MustRollback()
	from, err := tx.GetCompactRevision(ctx)
	if err != nil {
		return err
	}
	if err := tx.SetCompactRevision(ctx, to); err != nil {
		return err
	}
	if _, err := tx.Compact(ctx, from, to); err != nil {
		return err
	}
	tx.MustCommit()
	return nil
}

// TestSlowCompactionComesToItsEnd: a batch takes as many transactions as it needs, none of which keeps writers waiting for long.
func TestSlowCompactionComesToItsEnd(t *testing.T) {
	for each, want := range map[time.Duration]struct {
		most    int64 // of the last steps
		longest time.Duration
	}{
		time.Microsecond:       {compactBatch, compactAim},
		500 * time.Microsecond: {100, compactAim},
		10 * time.Millisecond:  {compactFloor, 200 * time.Millisecond},
		50 * time.Millisecond:  {20, compactWithin},
		900 * time.Millisecond: {2, compactWithin},
		3 * time.Second:        {1, compactWithin},
	} {
		t.Run(each.String(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				h := &slowHistory{t: t, each: each}
				g := newGroup(h)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go g.run(ctx)
				compacted := make(chan error, 1)
				go func() {
					for to := int64(compactBatch); to <= 2*compactBatch; to += compactBatch {
						if err := compactAsKine(ctx, dialect{h, g}, to); err != nil {
							compacted <- err
							return
						}
					}
					compacted <- nil
				}()
				for done := false; !done; {
					select {
					case err := <-compacted:
						if err != nil || h.compacted != 2*compactBatch {
							t.Fatalf("compacted up to revision %d of %d: %v", h.compacted, 2*compactBatch, err)
						}
						done = true
					case <-time.After(100 * time.Millisecond):
						began := time.Now()
						if _, err := g.insert(ctx, &insertion{key: "a"}); err != nil {
							t.Error(err)
						}
						if took := time.Since(began); took > want.longest {
							t.Errorf("a write waits for %s", took)
						}
					}
				}
				if last := h.steps[len(h.steps)-1]; last > want.most {
					t.Errorf("the last step has %d revisions", last)
				}
				// A sync takes as long as here on a slow card, whatever the step has.
				h.each, h.sync = 0, 100*time.Millisecond
				if err := compactAsKine(ctx, dialect{h, g}, 4*compactBatch); err != nil {
					t.Error(err)
				}
				if last := h.steps[len(h.steps)-2]; last != compactFloor {
					t.Errorf("a step whose sync takes long has %d revisions", last)
				}
				// It is fast again.
				h.sync = 0
				if err := compactAsKine(ctx, dialect{h, g}, 7*compactBatch); err != nil {
					t.Error(err)
				}
				if last := h.steps[len(h.steps)-2]; last != compactBatch {
					t.Errorf("a fast step has %d revisions", last)
				}
			})
		})
	}
}

// TestCompactionThatCannotGoOnIsAnError: it does not try for ever to compact a single revision, and what is done stays.
func TestCompactionThatCannotGoOnIsAnError(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := &slowHistory{t: t, each: compactWithin + time.Second}
		d := dialect{h, newGroup(h)}
		if err := compactAsKine(t.Context(), d, compactBatch); !errors.Is(err, context.DeadlineExceeded) || h.compacted != 0 {
			t.Errorf("compacted up to revision %d: %v", h.compacted, err)
		}
		h.each = time.Second
		if err := compactAsKine(t.Context(), d, compactBatch); err != nil || h.compacted != compactBatch {
			t.Errorf("compacted up to revision %d: %v", h.compacted, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // the server stops
		defer cancel()
		if err := compactAsKine(ctx, d, 2*compactBatch); !errors.Is(err, context.DeadlineExceeded) || h.compacted <= compactBatch || h.compacted >= 2*compactBatch {
			t.Errorf("compacted up to revision %d: %v", h.compacted, err)
		}
	})
}

// TestCompactionsAtTheSameTime: the compacted revision never goes back when a client asks for a compaction during kine's own.
func TestCompactionsAtTheSameTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := &slowHistory{t: t, each: 100 * time.Millisecond}
		d := dialect{h, newGroup(h)}
		errs := make(chan error, 2)
		for _, to := range []int64{compactBatch, compactBatch + 500} {
			go func() { errs <- compactAsKine(t.Context(), d, to) }()
		}
		for range 2 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if h.compacted != compactBatch+500 {
			t.Errorf("compacted up to revision %d", h.compacted)
		}
	})
}
