package datastore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	etcdbackend "go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// EtcdSink builds the etcd store of a data directory. It has etcd make a new one, and puts the keys into its database
// while etcd is stopped, because no request can choose their revisions.
type EtcdSink struct {
	dir     string
	log     *etcdLog
	backend etcdbackend.Backend // nil once closed
	leases  map[time.Duration]int64
	latest  int64 // of the revisions of the records
	pending int   // bytes of values that have been put since the last commit, or more
}

var _ dump.Sink = (*EtcdSink)(nil)

// NewEtcdSink begins an etcd store below dir, a data directory that has none.
func NewEtcdSink(ctx context.Context, dir string) (*EtcdSink, error) {
	if held, err := HoldsEtcd(dir); err != nil || held {
		return nil, errors.Join(fmt.Errorf("there is an etcd store already: %s", etcdDir(dir)), err)
	}
	s, err := Start(ctx, Options{Dir: dir, Endpoint: Etcd, Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
	if err != nil {
		return nil, err
	}
	s.Stop()
	sink := &EtcdSink{dir: etcdDir(dir), log: newEtcdLog(etcdDir(dir)), leases: map[time.Duration]int64{}}
	config := etcdbackend.DefaultBackendConfig(sink.log.logger())
	config.Path = etcdDatabase(dir)
	config.BatchLimit = commitKeys
	config.BatchInterval = math.MaxInt64 // it commits in no goroutine of its own, where nobody would take its errors
	if err := sink.log.guard(ctx, func() { sink.backend = etcdbackend.New(config) }); err != nil {
		return nil, sink.failed(err)
	}
	err = sink.write(func(tx etcdbackend.BatchTx) { // what the start has written
		tx.UnsafeDeleteBucket(schema.Key)
		tx.UnsafeCreateBucket(schema.Key)
	})
	if err != nil {
		return nil, errors.Join(err, sink.Close())
	}
	return sink, nil
}

// The sink commits after so many keys, or bytes of values. Until then etcd keeps both in memory, and sorts the keys whenever one
// comes out of order.
const (
	commitKeys  = 500
	commitBytes = 8 << 20
)

// write makes a change, and commits when there are many.
func (s *EtcdSink) write(change func(etcdbackend.BatchTx)) error {
	tx := s.backend.BatchTx()
	return s.guarded(func() {
		tx.LockOutsideApply()
		change(tx)
		tx.Unlock()
	})
}

// guarded calls etcd's backend.
func (s *EtcdSink) guarded(call func()) error {
	err := s.log.guard(context.Background(), call)
	if err != nil {
		s.backend = nil // what has given up holds its locks for ever: closing it would wait for them
	}
	return s.failed(err)
}

func (s *EtcdSink) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("writing the etcd store %s: %w", s.dir, err)
}

// Put implements dump.Sink.
func (s *EtcdSink) Put(r dump.Record) error {
	lease, err := s.lease(r.TTL)
	if err != nil {
		return err
	}
	kv := &mvccpb.KeyValue{
		Key: r.Key, Value: r.Value, CreateRevision: r.CreateRevision, ModRevision: r.ModRevision, Version: max(1, r.Version),
		Lease: lease,
	}
	value, err := proto.Marshal(kv)
	if err != nil {
		return s.failed(err)
	}
	s.latest = max(s.latest, r.ModRevision)
	revision := mvcc.RevToBytes(mvcc.Revision{Main: r.ModRevision}, mvcc.NewRevBytes())
	taken := false
	err = s.write(func(tx etcdbackend.BatchTx) {
		if there, _ := tx.UnsafeRange(schema.Key, revision, nil, 1); len(there) > 0 {
			taken = true
			return
		}
		// Sequential or not: the pages of a large commit are filled instead of half empty.
		tx.UnsafeSeqPut(schema.Key, revision, value)
	})
	if err != nil {
		return err
	}
	if taken { // it would take the place of the other
		return s.failed(fmt.Errorf("%q and another key are both of revision %d", r.Key, r.ModRevision))
	}
	if s.pending += len(value); s.pending < commitBytes {
		return nil
	}
	s.pending = 0
	return s.guarded(s.backend.ForceCommit)
}

// lease returns the lease of keys that go after ttl; 0 for keys that stay. It runs anew from etcd's start.
func (s *EtcdSink) lease(ttl time.Duration) (id int64, err error) {
	if ttl == 0 {
		return 0, nil
	}
	id, known := s.leases[ttl]
	if known {
		return id, nil
	}
	id = int64(len(s.leases) + 1)
	s.leases[ttl] = id
	seconds := max(1, int64(ttl/time.Second))
	return id, s.write(func(tx etcdbackend.BatchTx) {
		schema.MustUnsafePutLease(tx, &leasepb.Lease{ID: id, TTL: seconds, RemainingTTL: seconds})
	})
}

// skipped is a key that is deleted at the revision that a new store begins with, and was never there.
const skipped = "/reap/skipped"

// Finish implements dump.Sink. The revision may be the latest of the records. etcd would go on from the one up to which its
// history is compacted, but its tools look for the latest that something has: 'etcdutl snapshot restore --bump-revision'
// would count from there, and end below what clients have seen. So there is a deletion at the revision.
func (s *EtcdSink) Finish(revision int64) error {
	deletion, err := proto.Marshal(&mvccpb.KeyValue{Key: []byte(skipped)})
	if err != nil {
		return s.failed(err)
	}
	err = s.write(func(tx etcdbackend.BatchTx) {
		if s.latest < revision {
			const tombstone = 't' // behind a revision's bytes
			tx.UnsafePut(schema.Key, append(mvcc.RevToBytes(mvcc.Revision{Main: revision}, mvcc.NewRevBytes()), tombstone), deletion)
		}
		mvcc.UnsafeSetFinishedCompact(tx, revision)
	})
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	return s.failed(syncEtcdNames(s.dir))
}

// Close implements dump.Sink. What has been put is written and synced, although nobody may want it any more.
func (s *EtcdSink) Close() (err error) {
	if s.backend == nil {
		return nil
	}
	b := s.backend
	s.backend = nil
	gaveUp := s.log.guard(context.Background(), func() { err = b.Close() })
	return s.failed(errors.Join(gaveUp, err))
}

// EtcdRevision returns the latest revision in the etcd store of a data directory, or one of the last seconds before it; 0 if
// there is none. A damaged database is an error.
func EtcdRevision(ctx context.Context, dir string) (revision int64, err error) {
	path := etcdDatabase(dir)
	if held, err := thereIs(path); err != nil || !held {
		return 0, err
	}
	var read int64
	damage, err := newEtcdLog(etcdDir(dir)).survive(ctx, func() (err error) {
		read, err = revisionOf(path)
		return err
	})
	if err := errors.Join(damage, err); err != nil {
		return 0, fmt.Errorf("reading the revision of %s: %w", path, err)
	}
	return read, nil
}

// revisionOf is EtcdRevision for a database that is there. It panics on some damage.
func revisionOf(path string) (revision int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(tx *bbolt.Tx) error {
		if err := wholePages(file, tx); err != nil { // bbolt may read damaged ones without end
			return err
		}
		if keys := tx.Bucket(schema.Key.Name()); keys != nil {
			if last, _ := keys.Cursor().Last(); last != nil {
				revision = mvcc.BytesToRev(last).Main
			}
		}
		if meta := tx.Bucket(schema.Meta.Name()); meta != nil {
			if compacted := meta.Get(schema.FinishedCompactKeyName); compacted != nil {
				revision = max(revision, mvcc.BytesToRev(compacted).Main)
			}
		}
		return nil
	})
	return revision, err
}
