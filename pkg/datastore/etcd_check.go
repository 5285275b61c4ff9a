package datastore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"google.golang.org/protobuf/proto"
)

// CheckWholeEtcd reads all of the embedded etcd of a data directory, which no server may use: its log with the checksums, the
// pages of its database, how the revisions of each key build on each other, and the values. It changes nothing. A damaged
// store is no error. Progress is called with the rows read and those that there are.
//
// The database has no checksums: damage inside a value may leave a value that decodes, and has the name that its key has.
func CheckWholeEtcd(ctx context.Context, dir string, progress func(done, all int64)) (Checked, error) {
	c := newEtcdCheck(dir)
	progress(0, 1) // the log and the pages, which do not tell how far they are
	if err := c.readable(ctx, "the log", c.readLog); err != nil {
		return Checked{}, err
	}
	if there, err := thereIs(c.Path); err != nil || !there {
		c.problem("the database is missing") // etcd would make an empty one
		return c.Checked, err
	}
	if err := c.readable(ctx, "the database", func() error { return c.database(ctx, progress) }); err != nil {
		return Checked{}, err
	}
	c.compareLog()
	return c.Checked, nil
}

// checkEtcd returns an error if the log or the pages of a store are damaged. etcd itself reads a page as it is: it may leave out rows
// without a word, or end the process later. It does not read the rows, which Store.Verify does.
//
// bbolt begins with the meta page before if the newest is damaged, and the log has what it lacks.
func checkEtcd(ctx context.Context, dir string) error {
	c := newEtcdCheck(dir)
	if there, err := thereIs(c.Path); err != nil || !there {
		return err // etcd says by itself what it lacks
	}
	err := c.readable(ctx, "the log", c.readLog)
	if err == nil && len(c.Problems) == 0 {
		err = c.readable(ctx, "the database", func() error {
			return c.pages(wholeTree, func(tx *bbolt.Tx) error {
				c.readApplied(tx.Bucket(schema.Meta.Name()))
				return nil
			})
		})
	}
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return nil // the start waits for the other process
	}
	c.compareLog()
	if err == nil && len(c.Problems) > 0 {
		err = errors.New(c.Problems[0])
	}
	return err
}

// readApplied reads which entry of the log the database ends with.
func (c *etcdCheck) readApplied(meta *bbolt.Bucket) {
	if meta == nil {
		return
	}
	if raw := meta.Get(schema.MetaConsistentIndexKeyName); len(raw) == 8 {
		c.applied = binary.BigEndian.Uint64(raw)
	}
}

// compareLog compares the end of the log with what the database holds.
func (c *etcdCheck) compareLog() {
	if c.logged != nil && *c.logged < c.applied {
		// A leader appends its first entry to the end of the log. etcd would take it, and what follows, for what the database has already, and wait for its
		// effect without end.
		c.problem("the log ends with entry %d, and the database holds what follows up to %d", *c.logged, c.applied)
	}
}

type etcdCheck struct {
	Checked
	log       *etcdLog
	logged    *uint64 // the last entry of the log; nil if the log cannot be read
	applied   uint64  // the last entry of the log that the database holds
	compacted int64   // the revision up to which only the newest of each key may be there
	before    int64   // the revision of the row before
	places    places
	newest    newestRows
}

// newestRows has the newest row of each key that has been read. A store has millions of keys: it keeps a hash of each. Two keys of
// one hash would be damage that is none, and the next check has other hashes.
type newestRows struct {
	seed maphash.Seed
	rows map[uint64]etcdRow
}

func newNewestRows() newestRows {
	return newestRows{seed: maphash.MakeSeed(), rows: map[uint64]etcdRow{}}
}

func (n newestRows) of(key []byte) (row etcdRow, known bool) {
	row, known = n.rows[maphash.Bytes(n.seed, key)]
	return row, known
}

func (n newestRows) set(key []byte, row etcdRow) { n.rows[maphash.Bytes(n.seed, key)] = row }

func newEtcdCheck(dir string) *etcdCheck {
	return &etcdCheck{Checked: Checked{Path: etcdDatabase(dir), Problems: []string{}}, log: newEtcdLog(etcdDir(dir)), places: places{}, newest: newNewestRows()}
}

// readable runs do, and returns its error. A panic on damage becomes a problem of the part that it reads.
func (c *etcdCheck) readable(ctx context.Context, what string, do func() error) error {
	damage, err := c.log.survive(ctx, do)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if damage != nil {
		c.problem("%s cannot be read: %v", what, damage)
	}
	return err
}

// survive runs do, which reads files that may be damaged, and returns its error, or why it could not end: damage or the end of ctx.
func (l *etcdLog) survive(ctx context.Context, do func() error) (damage, err error) {
	damage = l.guard(ctx, func() {
		debug.SetPanicOnFault(true) // in this goroutine: the file may end where bbolt reads it
		err = do()
	})
	if damage != nil {
		return damage, nil // do may still be running
	}
	return nil, err
}

// readLog reads what a start reads of the log.
func (c *etcdCheck) readLog() error {
	dir := filepath.Join(filepath.Dir(filepath.Dir(c.Path)), "wal")
	snapshots, err := wal.ValidSnapshotEntries(c.log.logger(), dir)
	if err != nil {
		c.problem("the log in %s is damaged: %v", dir, err)
		return nil
	}
	newest := &walpb.Snapshot{}
	if len(snapshots) > 0 {
		newest = snapshots[len(snapshots)-1]
	}
	w, err := wal.OpenForRead(c.log.logger(), dir, newest)
	if err != nil {
		c.problem("the log in %s cannot be opened: %v", dir, err)
		return nil
	}
	defer func() { _ = w.Close() }() // nothing was written
	_, _, entries, err := w.ReadAll()
	if err != nil {
		c.problem("the log in %s is damaged: %v", dir, err)
		return nil
	}
	last := newest.GetIndex()
	if n := len(entries); n > 0 {
		last = entries[n-1].GetIndex()
	}
	c.logged = &last
	return nil
}

// database reads the database.
func (c *etcdCheck) database(ctx context.Context, progress func(done, all int64)) error {
	err := c.pages(wholePages, func(tx *bbolt.Tx) error { return c.rows(ctx, tx, progress) })
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return fmt.Errorf("opening the database %s: another process uses it: stop it", c.Path)
	}
	return err
}

// pages calls do with the database if all its pages are what they should be: only then the library may read the rows in them.
func (c *etcdCheck) pages(whole func(io.ReaderAt, *bbolt.Tx) error, do func(*bbolt.Tx) error) (err error) {
	file, err := os.Open(c.Path)
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	db, err := bbolt.Open(c.Path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	switch {
	case errors.Is(err, bbolterrors.ErrTimeout), errors.Is(err, os.ErrPermission):
		return fmt.Errorf("opening the database: %w", err)
	case err != nil:
		c.problem("the database cannot be read: %v", err)
		return nil
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.View(func(tx *bbolt.Tx) error {
		if err := whole(file, tx); err != nil {
			c.problem("the database is damaged: %v", err)
			return nil
		}
		return do(tx)
	})
}

// etcdRow is what the database says of a key at a revision.
type etcdRow struct {
	created, version int64 // 0 after a deletion
	modified         int64
}

// rows checks the rows of keys, which come by their revisions.
func (c *etcdCheck) rows(ctx context.Context, tx *bbolt.Tx, progress func(done, all int64)) error {
	meta, rows := tx.Bucket(schema.Meta.Name()), tx.Bucket(schema.Key.Name())
	if meta == nil || rows == nil {
		c.problem("it is no database of etcd's: it has no keys or does not say what it holds")
		return nil
	}
	c.readApplied(meta)
	for _, name := range [][]byte{schema.ScheduledCompactKeyName, schema.FinishedCompactKeyName} {
		if at := meta.Get(name); at != nil {
			c.compacted = max(c.compacted, mvcc.BytesToRev(at).Main)
		}
	}
	all := int64(rows.Stats().KeyN)
	err := rows.ForEach(func(revision, value []byte) error {
		c.Rows++
		progress(c.Rows, all)
		if what := c.wrong(revision, value); what != "" {
			c.problem("row %q: %s", revision, what)
		}
		return ctx.Err()
	})
	for _, r := range c.newest.rows {
		if r.version > 0 {
			c.Keys++
		}
	}
	return err
}

// wrong says what is wrong with a row; "" is nothing.
func (c *etcdCheck) wrong(revision, value []byte) string {
	at := mvcc.BytesToRev(revision).Main // it panics unless this is one
	// Each write takes the next revision, and nothing behind the compacted one is ever taken away.
	last := max(c.before, c.compacted, 1)
	c.before = at
	if len(value) == 0 && !mvcc.IsTombstone(revision) {
		return "" // 'etcdutl snapshot restore --bump-revision' writes one at the revision that it goes on from
	}
	if at > last+1 {
		return fmt.Sprintf("the revisions behind %d are missing", last)
	}
	var kv mvccpb.KeyValue
	if err := proto.Unmarshal(value, &kv); err != nil {
		return fmt.Sprintf("it cannot be decoded: %v", err)
	}
	key := string(kv.GetKey())
	if key == "" {
		return "it has no name"
	}
	before, known := c.newest.of(kv.GetKey())
	if mvcc.IsTombstone(revision) {
		c.newest.set(kv.GetKey(), etcdRow{modified: at})
		if at > c.compacted && before.version == 0 {
			return fmt.Sprintf("it deletes %q, which is not there", key)
		}
		return ""
	}
	row := etcdRow{created: kv.GetCreateRevision(), version: kv.GetVersion(), modified: at}
	c.newest.set(kv.GetKey(), row)
	switch {
	case kv.GetModRevision() != at:
		return fmt.Sprintf("%q says that it is of revision %d", key, kv.GetModRevision())
	case row.created <= 0 || row.created > at || row.version <= 0 || row.version > at-row.created+1:
		return fmt.Sprintf("%q was created at revision %d and is version %d", key, row.created, row.version)
	case row.version == 1 && row.created != at && at > c.compacted:
		return fmt.Sprintf("%q is new, and was created at revision %d", key, row.created)
	case row.version > 1 && at > c.compacted && !known:
		return fmt.Sprintf("%q is version %d, and the one before is missing", key, row.version)
	case known && row.version > 1 && (row.version != before.version+1 || row.created != before.created):
		return fmt.Sprintf("%q is version %d of what was created at revision %d, and does not fit revision %d", key, row.version, row.created, before.modified)
	case known && row.version == 1 && before.version > 0:
		return fmt.Sprintf("%q is new, and was there since revision %d", key, before.modified)
	case kv.GetLease() != 0 && !mayExpire(key):
		return fmt.Sprintf("%q has a lease, and a key of its kind has none", key)
	}
	if what := c.places.wrong(key, kv.GetValue()); what != "" {
		return fmt.Sprintf("%q: %s", key, what)
	}
	return ""
}
