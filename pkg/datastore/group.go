package datastore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/k3s-io/kine/pkg/server"
	"golang.org/x/sync/semaphore"
)

const (
	// maxGroup is how many rows one transaction takes.
	maxGroup = 64
	// maxGroupBytes is how many bytes of values it takes, but for the last row: SQLite's log grows by each transaction, and has to stay
	// so short that a disk that becomes full has room to take it in.
	maxGroupBytes = 2 << 20
)

// group commits the rows that are written at the same time in one transaction: with one for each, every write would wait for the
// syncs of all before it, and write the same pages of the indexes again.
type group struct {
	database server.Dialect
	rows     chan *insertion
	// turns lets one transaction write at a time, in the order in which they come. SQLite lets whoever finds it free write, and those
	// who did not look again after up to 100 ms: a compaction, which is many transactions, would keep all others waiting until its end.
	turns *semaphore.Weighted
	step  int64       // see compact; whoever has the turn may use it
	log   *writeAhead // nil for none
	// thrift is asked how to write; nil for as ever.
	thrift *thrift
	// doubtful is true while nothing may be compacted: see Store.Verify.
	doubtful atomic.Bool
}

// insertion is a row that is to be written.
type insertion struct {
	key              string
	created, deleted bool
	previous, ttl    int64
	value            []byte

	written chan struct{} // closed when what follows is known
	id      int64         // 0 if the key is no longer as it was at previous
	err     error
}

func newGroup(database server.Dialect) *group {
	return &group{database: database, rows: make(chan *insertion), turns: semaphore.NewWeighted(1), step: compactFloor}
}

// insert returns when the row is committed or refused. Whether it will be is unknown if ctx ends before.
func (g *group) insert(ctx context.Context, r *insertion) (int64, error) {
	r.written = make(chan struct{})
	select {
	case g.rows <- r:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	select {
	case <-r.written:
		return r.id, r.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// run writes rows until ctx ends. Those that it has begun with it writes.
func (g *group) run(ctx context.Context) {
	for {
		var rows []*insertion
		select {
		case <-ctx.Done():
			return
		case r := <-g.rows:
			rows = append(rows, r)
		}
		bytes := len(rows[0].value)
		for more := true; more && len(rows) < maxGroup && bytes < maxGroupBytes; {
			select {
			case r := <-g.rows:
				rows = append(rows, r)
				bytes += len(r.value)
			default:
				more = false
			}
		}
		g.write(context.WithoutCancel(ctx), rows)
	}
}

// write writes rows and says what became of each. If they cannot be written together, each is tried alone: one may be too large for a
// disk that has room for another. A full disk takes no row of a new key; it takes others, if need be after room has been made.
func (g *group) write(ctx context.Context, rows []*insertion) {
	g.thrift.foresee(ctx, rows)
	if refusal := g.thrift.refusal(); refusal != nil {
		rows = slices.DeleteFunc(rows, func(r *insertion) bool {
			if r.created {
				r.id, r.err = 0, refusal
				close(r.written)
			}
			return r.created
		})
		if len(rows) == 0 {
			return
		}
	}
	err := g.commit(ctx, rows)
	if isFull(err) && len(rows) == 1 && !rows[0].created && g.thrift.on() {
		_ = g.thrift.relieve(ctx) // the second try says how it is
		err = g.commit(ctx, rows)
	}
	if err != nil && len(rows) > 1 {
		for _, r := range rows {
			g.write(ctx, []*insertion{r})
		}
		return
	}
	for _, r := range rows {
		if err != nil {
			r.id, r.err = 0, err
		}
		close(r.written)
	}
	if err == nil {
		g.thrift.wrote(ctx, rows)
	}
}

// commit writes rows in one transaction. An error means that none is written. A row whose key has been written meanwhile is left out.
func (g *group) commit(ctx context.Context, rows []*insertion) error {
	if err := g.turns.Acquire(ctx, 1); err != nil {
		return err
	}
	defer g.turns.Release(1)
	database := g.database
	if g.thrift.near() {
		database = g.thrift.lean
	}
	tx, err := database.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		return err
	}
	for _, r := range rows {
		r.id, r.err = tx.Insert(ctx, r.key, r.created, r.deleted, r.previous, r.ttl, r.value)
		// SQLite takes back only the row that is there already.
		if r.err != nil && !errors.Is(r.err, server.ErrKeyExists) {
			return errors.Join(r.err, tx.Rollback())
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	g.log.keepShort(ctx)
	return nil
}
