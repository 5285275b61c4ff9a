package datastore

import (
	"bytes"
	"context"
	"fmt"

	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// verify is Store.Verify for the embedded etcd. It reads the rows in one read of the database, so that free pages are not used again
// meanwhile, and keeps what it has seen of each key. Then it looks each key up in etcd's index, as a GET does: etcd makes the index from
// the rows when it starts, and damage to a page may hide some from it.
func (e *etcd) verify(ctx context.Context, progress func(done, all int64)) (_ Checked, err error) {
	c := &etcdCheck{Checked: Checked{Path: etcdDatabase(e.dir), Problems: []string{}}, places: places{}}
	now, err := e.member.KV().Range(ctx, []byte{0}, []byte{}, mvcc.RangeOptions{CountOnly: true})
	if err != nil {
		return c.Checked, fmt.Errorf("counting the keys of etcd: %w", err)
	}
	keys := int64(now.Count)
	newest := map[string]etcdRow{}
	if err := c.readAlong(ctx, e, newest, func() { progress(min(c.Rows, keys), 2*keys) }); err != nil {
		return c.Checked, err
	}
	lost := map[string]int64{} // keys that the index does not have, or not as new, with the revision
	for key, row := range newest {
		if row.version == 0 {
			continue
		}
		c.Keys++
		progress(keys+min(c.Keys, keys), 2*keys)
		found, err := e.member.KV().Range(ctx, []byte(key), nil, mvcc.RangeOptions{Limit: 1})
		if err != nil {
			return c.Checked, fmt.Errorf("looking up %q: %w", key, err)
		}
		if len(found.KVs) == 0 || found.KVs[0].GetModRevision() < row.modified {
			lost[key] = row.modified
		}
	}
	if len(lost) == 0 {
		return c.Checked, nil
	}
	// They may have been deleted since they were read. A row that is there now was there when the index did not have it.
	again := &etcdCheck{Checked: Checked{Problems: []string{}}, places: places{}}
	still := map[string]etcdRow{}
	if err := again.readAlong(ctx, e, still, func() {}); err != nil {
		return c.Checked, err
	}
	for key, revision := range lost {
		if row := still[key]; row.version > 0 && row.modified == revision {
			c.problem("%q: the database has it at revision %d, and the index does not lead to it", key, revision)
		}
	}
	return c.Checked, nil
}

// readAlong reads all rows of a running etcd.
func (c *etcdCheck) readAlong(ctx context.Context, e *etcd, newest map[string]etcdRow, read func()) (err error) {
	tx := e.member.Backend().ConcurrentReadTx()
	tx.RLock()
	defer tx.RUnlock()
	defer func() {
		if p := recover(); p != nil { // as bbolt does on a page that is another one
			c.problem("the database cannot be read: %v", p)
		}
	}()
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
		if what := c.wrong(revision, value, newest); what != "" {
			c.problem("row %q: %s", revision, what)
		}
		return ctx.Err()
	})
}
