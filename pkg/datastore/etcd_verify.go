package datastore

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"go.etcd.io/etcd/api/v3/mvccpb"
	storage "go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"
)

// verify is Store.Verify for the embedded etcd. It reads the rows in one read of the database, so that free pages are not used again
// meanwhile, and keeps the newest revision of each key. Then it reads them again, a few at a time, and looks each key up in etcd's index, as a
// GET does: etcd makes the index from the rows when it starts, and damage to a page may hide some from it.
func (e *etcd) verify(ctx context.Context, progress func(done, all int64)) (Checked, error) {
	c := newEtcdCheck(e.dir)
	now, err := e.member.KV().Range(ctx, []byte{0}, []byte{}, mvcc.RangeOptions{CountOnly: true})
	if err != nil {
		return c.Checked, fmt.Errorf("counting the keys of etcd: %w", err)
	}
	keys := int64(now.Count)
	if err := c.readAlong(ctx, e, func() { progress(min(c.Rows, keys), 2*keys) }); err != nil {
		return c.Checked, err
	}
	lost := map[string]int64{} // keys that the index does not have, or not as new, with the revision
	for from := []byte{}; from != nil; {
		var rows []foundRow
		rows, from = c.newestFrom(e, from)
		for _, r := range rows {
			found, err := e.member.KV().Range(ctx, r.key, nil, mvcc.RangeOptions{Limit: 1})
			if err != nil {
				return c.Checked, fmt.Errorf("looking up %q: %w", r.key, err)
			}
			if len(found.KVs) == 0 || found.KVs[0].GetModRevision() < r.revision {
				lost[string(r.key)] = r.revision
			}
			c.Keys++
			progress(keys+min(c.Keys, keys), 2*keys)
		}
		if len(lost) > maxLost {
			return c.Checked, fmt.Errorf("more than %d keys were deleted while they were checked", maxLost)
		}
	}
	if len(lost) == 0 {
		return c.Checked, nil
	}
	// They may have been deleted since they were read. A row that is there now was there when the index did not have it.
	again := newEtcdCheck(e.dir)
	if err := again.readAlong(ctx, e, func() {}); err != nil {
		return c.Checked, err
	}
	for key, revision := range lost {
		if row, _ := again.newest.of([]byte(key)); row.version > 0 && row.modified == revision {
			c.problem("%q: the database has it at revision %d, and the index does not lead to it", key, revision)
		}
	}
	return c.Checked, nil
}

// maxLost bounds the memory that keys take that the index does not have. Most of them have just been deleted.
const maxLost = 20_000

// readAlong reads all rows of a running etcd.
func (c *etcdCheck) readAlong(ctx context.Context, e *etcd, read func()) (err error) {
	return c.reading(e, func(tx storage.ReadTx) error {
		for _, compacted := range []func() (int64, bool){
			func() (int64, bool) { return mvcc.UnsafeReadScheduledCompact(tx) },
			func() (int64, bool) { return mvcc.UnsafeReadFinishedCompact(tx) },
		} {
			at, _ := compacted()
			c.compacted = max(c.compacted, at)
		}
		var before []byte
		return tx.UnsafeForEach(schema.Key, func(revision, value []byte) error {
			c.Rows++
			read()
			if bytes.Compare(before, revision) >= 0 {
				c.problem("row %q: it is not in order", revision)
			}
			before = append(before[:0], revision...)
			if what := c.wrong(revision, value); what != "" {
				c.problem("row %q: %s", revision, what)
			}
			return ctx.Err()
		})
	})
}

// foundRow is the newest row of a key that is there.
type foundRow struct {
	key      []byte
	revision int64
}

// newestFrom returns some rows that readAlong has found to be the newest of their keys, and from where the next are; nil if there are none. The
// index must not be asked during a read of the database: etcd may wait for its end, and lets no other begin then.
func (c *etcdCheck) newestFrom(e *etcd, from []byte) (rows []foundRow, next []byte) {
	end := mvcc.RevToBytes(mvcc.Revision{Main: math.MaxInt64, Sub: math.MaxInt64}, mvcc.NewRevBytes())
	_ = c.reading(e, func(tx storage.ReadTx) error {
		revisions, values := tx.UnsafeRange(schema.Key, from, end, verifyChunk)
		for i, revision := range revisions {
			next = append(bytes.Clone(revision), 0)
			var kv mvccpb.KeyValue
			if mvcc.IsTombstone(revision) || proto.Unmarshal(values[i], &kv) != nil {
				continue // the second was a problem already
			}
			at := mvcc.BytesToRev(revision).Main
			if newest, _ := c.newest.of(kv.GetKey()); newest.version > 0 && newest.modified == at {
				rows = append(rows, foundRow{bytes.Clone(kv.GetKey()), at})
			}
		}
		return nil
	})
	return rows, next
}

// reading calls do in a read of the database. A panic on damage becomes a problem.
func (c *etcdCheck) reading(e *etcd, do func(storage.ReadTx) error) error {
	tx := e.member.Backend().ConcurrentReadTx()
	tx.RLock()
	defer tx.RUnlock()
	defer func() {
		if p := recover(); p != nil { // as bbolt does on a page that is another one
			c.problem("the database cannot be read: %v", p)
		}
	}()
	return do(tx)
}
