package datastore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/sirupsen/logrus"
)

const (
	// compactWithin is how long a step of a compaction may take. Nobody writes meanwhile.
	compactWithin = 5 * time.Second
	// compactAim is how long a step should take at most: so long writes wait for it.
	compactAim = 50 * time.Millisecond
	// compactFloor is how many revisions a step has all the same, unless it takes longer than compactSlow: on a slow card the sync alone
	// takes longer than compactAim, and a compaction has to be faster than what is written.
	compactFloor = 20
	compactSlow  = time.Second
)

// errDoubtful is the error of a compaction of a store that has not been found whole.
var errDoubtful = errors.New("history is kept until a check has found the datastore whole")

// compact compacts up to a revision and returns how many rows that has deleted. Each step is a transaction: what is done stays done, and
// others write between two of them. How many revisions a step has depends on how long the steps before have taken, because a thousand
// revisions of large objects can take a minute on a slow card.
func (g *group) compact(ctx context.Context, to int64) (int64, error) {
	var deleted int64
	for {
		if g.doubtful.Load() {
			return deleted, errDoubtful
		}
		rows, done, err := g.compactSome(ctx, to)
		if err != nil || done {
			return deleted, err
		}
		deleted += rows
	}
}

// compactSome does one step, if there is something to compact. A step that has run out of time, or of room on the disk, has done nothing,
// and the next has fewer revisions; that is an error only if it had a single one.
func (g *group) compactSome(ctx context.Context, to int64) (rows int64, done bool, err error) {
	if err := g.turns.Acquire(ctx, 1); err != nil {
		return 0, false, err
	}
	defer g.turns.Release(1)
	limited, cancel := context.WithTimeout(ctx, compactWithin)
	defer cancel()
	began := time.Now()
	revisions, rows, err := g.compactStep(limited, to)
	took := time.Since(began)
	switch {
	case err != nil && revisions > 1 && limited.Err() != nil && ctx.Err() == nil:
		g.step = max(1, revisions/4)
		logrus.WithFields(logrus.Fields{"revisions": revisions, "next": g.step}).Info("a step of the compaction has run out of time; trying a smaller one")
		return 0, false, nil
	case isFull(err) && revisions > 1:
		g.step = max(1, revisions/4)
		return 0, false, nil
	case err != nil:
		return 0, false, err
	case revisions == 0:
		return 0, true, nil
	}
	g.step = nextStep(g.step, revisions, took)
	return rows, false, nil
}

// nextStep returns how many revisions the next step has, after one that was to have step revisions, had some of them, and took that long.
func nextStep(step, had int64, took time.Duration) int64 {
	switch {
	case took > compactSlow:
		return max(1, had/2)
	case took > compactAim && had > compactFloor:
		return max(compactFloor, had/2)
	case took < compactAim/4, step < compactFloor && took < compactSlow/4:
		return min(2*step, compactBatch)
	}
	return step
}

// compactStep compacts in one transaction the revisions that follow on the compacted one, step of them at most. It begins where the
// database says: another compaction, which a client has asked for, may have been there meanwhile.
func (g *group) compactStep(ctx context.Context, to int64) (revisions, rows int64, err error) {
	tx, err := g.database.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		return 0, 0, err
	}
	at, err := tx.GetCompactRevision(ctx)
	if err == nil && at >= to {
		return 0, 0, tx.Rollback()
	}
	if err == nil {
		revisions = min(g.step, to-at)
		err = tx.SetCompactRevision(ctx, at+revisions)
	}
	if err == nil {
		rows, err = tx.Compact(ctx, at, at+revisions)
	}
	if err != nil {
		return revisions, 0, errors.Join(err, tx.Rollback())
	}
	return revisions, rows, tx.Commit()
}
