package datastore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// StatsEtcd reads all keys of an embedded etcd and counts. Progress is called with the keys read and those that there
// are. etcd does not tell how much of its database is history: History and HistoryBytes are 0.
func StatsEtcd(ctx context.Context, o *Opened, progress func(done, all int64)) (s Stats, err error) {
	s.Path = etcdDatabase(o.dir)
	status, err := o.status(ctx)
	if err != nil {
		return s, err
	}
	s.PageSize = int64(os.Getpagesize())
	s.Pages, s.FreePages = status.DbSize/s.PageSize, (status.DbSize-status.DbSizeInUse)/s.PageSize
	t := newTally(&s)
	var head dump.Head
	err = o.Read(ctx,
		func(h dump.Head) error { head = h; return nil },
		func(r dump.Record) error {
			t.key(string(r.Key), int64(len(r.Value)))
			progress(s.Keys, head.Keys)
			return nil
		})
	if err != nil {
		return s, err
	}
	t.sum()
	s.Revision = head.Revision
	if s.Compacted, err = o.compacted(ctx); err != nil {
		return s, err
	}
	s.Files, err = etcdFilesOf(o.dir)
	return s, err
}

// compacted returns up to which revision history is gone, 0 if all of it is there. A watch from before is told.
func (o *Opened) compacted(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err := o.client.Get(ctx, canary, clientv3.WithRev(1), clientv3.WithCountOnly())
	if errors.Is(err, rpctypes.ErrCompacted) {
		answer := <-o.client.Watch(ctx, canary, clientv3.WithRev(1))
		if answer.CompactRevision > 0 {
			return answer.CompactRevision, nil
		}
		err = errors.Join(answer.Err(), ctx.Err())
	}
	if err != nil {
		return 0, fmt.Errorf("asking etcd for its oldest revision: %w", err)
	}
	return 0, nil
}

// etcdFilesOf returns the database of an etcd and the files of its log.
func etcdFilesOf(dir string) (all []FileSize, err error) {
	logs, err := filepath.Glob(filepath.Join(etcdDir(dir), "member", "wal", "*.wal"))
	if err != nil {
		return nil, err
	}
	for _, path := range append([]string{etcdDatabase(dir)}, logs...) {
		info, err := os.Stat(path)
		if os.IsNotExist(err) {
			continue // a running server removes old ones
		}
		if err != nil {
			return nil, err
		}
		all = append(all, FileSize{Name: path, Bytes: info.Size()})
	}
	return all, nil
}
