package datastore

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Note is the value of a key of reap's own, beside the objects.
type Note struct {
	Value    []byte
	Revision int64 // of the last write; 0 if there is no such key
}

// Note reads a note.
func (s *Store) Note(ctx context.Context, key string) (n Note, err error) {
	err = s.dialed(func(c *clientv3.Client) error {
		got, err := c.Get(ctx, key)
		if err == nil && len(got.Kvs) > 0 {
			n = Note{Value: got.Kvs[0].Value, Revision: got.Kvs[0].ModRevision}
		}
		return err
	})
	if err != nil {
		return n, fmt.Errorf("reading %s of the datastore: %w", key, err)
	}
	return n, nil
}

// WriteNote replaces a note. It returns false if the note is not the one that was read before.
func (s *Store) WriteNote(ctx context.Context, key string, value []byte, before Note) (written bool, err error) {
	err = s.dialed(func(c *clientv3.Client) (err error) {
		written, err = swap(ctx, c, key, string(value), before.Revision)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("writing %s of the datastore: %w", key, err)
	}
	return written, nil
}

// dialed calls do with a client of the store's endpoints.
func (s *Store) dialed(do func(*clientv3.Client) error) error {
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints})
	if err != nil {
		return err
	}
	err = errors.Join(do(c), c.Close())
	if s.clean != nil {
		return s.clean(err)
	}
	return err
}

// swap writes a key if its last write was at a revision; 0: if it does not exist. It returns false if that is not so. These are the only
// forms of a transaction that kine knows.
func swap(ctx context.Context, c *clientv3.Client, key, value string, revision int64) (bool, error) {
	txn := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).Then(clientv3.OpPut(key, value))
	if revision > 0 {
		txn = txn.Else(clientv3.OpGet(key))
	}
	answer, err := txn.Commit()
	if err != nil {
		return false, err
	}
	return answer.Succeeded, nil
}
