package datastore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/k3s-io/kine/pkg/server"

	"github.com/reap-dev/reap/tests/bubble"
)

// grouping is a database whose transactions are counted, and fail as told.
type grouping struct {
	server.Dialect
	begun    int
	rollback int
	table    []string // the keys of the rows that are committed

	hold        chan struct{} // a commit waits for it
	bad         string        // a row that cannot be written
	commitFails func(rows int) error
	beginFails  error
}

func (g *grouping) BeginTx(context.Context, *sql.TxOptions) (server.Transaction, error) {
	g.begun++
	if g.beginFails != nil {
		return nil, g.beginFails
	}
	return &groupingTx{database: g}, nil
}

type groupingTx struct {
	server.Transaction
	database *grouping
	rows     []string
}

var errBadRow = errors.New("this row cannot be written")

func (t *groupingTx) Insert(_ context.Context, key string, _, _ bool, _, _ int64, _ []byte) (int64, error) {
	switch {
	case key == t.database.bad:
		return 0, errBadRow
	case slices.Contains(t.database.table, key), slices.Contains(t.rows, key):
		return 0, server.ErrKeyExists
	}
	t.rows = append(t.rows, key)
	return int64(len(t.database.table) + len(t.rows)), nil
}

func (t *groupingTx) Commit() error {
	<-t.database.hold
	if t.database.commitFails != nil {
		if err := t.database.commitFails(len(t.rows)); err != nil {
			return err
		}
	}
	t.database.table = append(t.database.table, t.rows...)
	return nil
}

func (t *groupingTx) Rollback() error {
	t.database.rollback++
	return nil
}

// insertTogether inserts a row, and the others while that is being committed. It returns what became of the others.
func insertTogether(t *testing.T, g *grouping, keys ...string) map[string]error {
	g.hold = make(chan struct{})
	group := newGroup(g)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go group.run(ctx)
	first := make(chan error)
	var mu sync.Mutex
	ids := map[string]int64{}
	insert := func(key string) error {
		id, err := group.insert(ctx, &insertion{key: key})
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			ids[key] = id
		}
		return err
	}
	go func() { first <- insert("first") }()
	synctest.Wait()
	type outcome struct {
		key string
		err error
	}
	outcomes := make(chan outcome)
	for _, key := range keys {
		go func() { outcomes <- outcome{key, insert(key)} }()
		synctest.Wait()
	}
	close(g.hold)
	if err := <-first; err != nil {
		t.Error(err)
	}
	all := map[string]error{}
	for range keys {
		o := <-outcomes
		all[o.key] = o.err
	}
	synctest.Wait()
	for key, id := range ids {
		if id < 1 || int(id) > len(g.table) || g.table[id-1] != key {
			t.Errorf("%s is said to be row %d of %q", key, id, g.table)
		}
	}
	return all
}

// TestRowsOfTheSameTimeShareATransaction: those that wait for a transaction are the next, and a row whose key has been written is refused
// alone.
func TestRowsOfTheSameTimeShareATransaction(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := &grouping{}
		got := insertTogether(t, g, "a", "b", "first", "c")
		if g.begun != 2 || !slices.Equal(g.table, []string{"first", "a", "b", "c"}) {
			t.Errorf("%d transactions, and the table has %q", g.begun, g.table)
		}
		for key, err := range got {
			if errors.Is(err, server.ErrKeyExists) != (key == "first") {
				t.Errorf("%s: %v", key, err)
			}
		}
	})
}

// TestRowThatFailsIsAlone: the rows of its transaction are written, and its error is its own. So it is if the transaction is too large.
func TestRowThatFailsIsAlone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := &grouping{bad: "b"}
		got := insertTogether(t, g, "a", "b", "c")
		if !errors.Is(got["b"], errBadRow) || got["a"] != nil || got["c"] != nil {
			t.Errorf("the rows are answered with %v", got)
		}
		if !slices.Equal(g.table, []string{"first", "a", "c"}) || g.rollback != 2 {
			t.Errorf("the table has %q after %d rollbacks", g.table, g.rollback)
		}
	})
	bubble.Test(t, func(t *testing.T) {
		tooLarge := errors.New("no room")
		g := &grouping{commitFails: func(rows int) error {
			if rows > 1 {
				return tooLarge
			}
			return nil
		}}
		for key, err := range insertTogether(t, g, "a", "b", "c") {
			if err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
		if !slices.Equal(g.table, []string{"first", "a", "b", "c"}) {
			t.Errorf("the table has %q", g.table)
		}
	})
}

// TestFailedCommitIsNoSuccess: a row that was not committed is not acknowledged.
func TestFailedCommitIsNoSuccess(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		broken := errors.New("the disk is gone")
		commits := 0
		g := &grouping{commitFails: func(int) error {
			if commits++; commits > 1 {
				return broken
			}
			return nil
		}}
		for key, err := range insertTogether(t, g, "a", "b") {
			if !errors.Is(err, broken) {
				t.Errorf("%s: %v", key, err)
			}
		}
	})
}

// TestInsertionEndsWithItsCaller: nobody waits for the database longer than they want.
func TestInsertionEndsWithItsCaller(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := &grouping{hold: make(chan struct{})}
		group := newGroup(g)
		running, stop := context.WithCancel(t.Context())
		go group.run(running)
		for range 2 { // the first is being written, the second waits
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				_, err := group.insert(ctx, &insertion{key: "a"})
				done <- err
			}()
			synctest.Wait()
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("the insertion ended with %v", err)
			}
		}
		close(g.hold)
		stop()
		synctest.Wait()
		if !slices.Equal(g.table, []string{"a"}) {
			t.Errorf("the table has %q: what was begun is written, and nothing else", g.table)
		}
	})
}

// TestCompactionLetsWritersIn: between two transactions of a compaction those write who have waited.
func TestCompactionLetsWritersIn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := &grouping{hold: make(chan struct{})}
		close(g.hold)
		group := newGroup(g)
		d := dialect{g, group}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go group.run(ctx)
		begin := func() server.Transaction {
			tx, err := d.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
			if err != nil {
				t.Error(err)
			}
			return tx
		}
		first := begin()
		written := make(chan error, 1)
		go func() {
			_, err := group.insert(ctx, &insertion{key: "waits"})
			written <- err
		}()
		synctest.Wait()
		if len(g.table) > 0 {
			t.Fatal("a row is written beside a compaction's transaction, which SQLite does not allow: it would look again every now and then")
		}
		before := -1
		go func() {
			second := begin()
			before = len(g.table)
			second.MustRollback()
			second.MustRollback() // it has one turn to give back
		}()
		synctest.Wait()
		first.MustRollback()
		if err := <-written; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if before != 1 {
			t.Errorf("the compaction went on with %d rows written, want the one that waited", before)
		}
		// A transaction that cannot begin, and one whose time is over while it waits, leave the turn to others.
		g.beginFails = errBadRow
		if _, err := d.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable}); !errors.Is(err, errBadRow) {
			t.Errorf("beginning: %v", err)
		}
		g.beginFails = nil
		last := begin()
		over, end := context.WithCancel(ctx)
		end()
		if _, err := d.BeginTx(over, &sql.TxOptions{Isolation: sql.LevelSerializable}); !errors.Is(err, context.Canceled) {
			t.Errorf("waiting: %v", err)
		}
		last.MustRollback()
		if _, err := group.insert(ctx, &insertion{key: "last"}); err != nil {
			t.Error(err)
		}
	})
}
