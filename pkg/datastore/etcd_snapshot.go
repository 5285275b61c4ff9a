package datastore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// WriteEtcdSnapshot writes a store as etcd's own tools do (etcdutl snapshot restore): the database of an etcd, with its
// checksum behind it. Keys keep their revisions; everything below the latest counts as compacted. The database is built
// below work, an empty folder. Progress is called with the keys copied and those that there are.
func WriteEtcdSnapshot(ctx context.Context, out io.Writer, from dump.Source, work string, progress func(done, all int64)) (head dump.Head, err error) {
	sink, err := NewEtcdSink(ctx, work)
	if err != nil {
		return head, err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	if head, err = dump.Copy(ctx, from, sink, progress); err != nil {
		return head, err
	}
	if err := sink.Finish(head.Revision); err != nil {
		return head, err
	}
	db, err := os.Open(etcdDatabase(work))
	if err != nil {
		return head, err
	}
	defer func() { _ = db.Close() }() // only read
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, sum), db); err != nil {
		return head, fmt.Errorf("writing the etcd snapshot: %w", err)
	}
	if _, err := out.Write(sum.Sum(nil)); err != nil {
		return head, fmt.Errorf("writing the etcd snapshot: %w", err)
	}
	return head, nil
}
