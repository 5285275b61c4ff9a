// Package datastore runs in process what the API server stores its objects
// through, which speaks the etcd API: kine, over SQLite in the data directory or
// over a database elsewhere, or etcd itself with its files in the data directory.
//
// It lives on a context of its own, because it has to outlast the API server:
// start it first, stop it last.
package datastore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/util/retry"

	"github.com/reap-dev/reap/pkg/datastore/outage"
)

// Options says where the data is.
type Options struct {
	// Dir is the data directory; the SQLite file or etcd's files, and their socket, live below it.
	Dir string
	// Endpoint is a kine endpoint such as postgres://…; empty means SQLite in Dir, and Etcd an etcd there.
	// It may hold a password and appears in no error and no log line.
	Endpoint string
	// Synchronous is SQLite's synchronous level, normal or full.
	Synchronous string
	// Reserve is how many bytes of the disk a file next to the database keeps for deletions; 0 is none.
	Reserve int64
	// Quota is how many bytes the database of the embedded etcd may take; 0 is 2 GiB.
	Quota int64
	// Full is true if MakeRoom has found the disk full. Writes are refused from the start then, until there is room for the
	// reserve and more.
	Full bool
	// MinHistory is how many of the newest revisions each compaction by kine leaves; 0 is 1,000. With fewer, watches that begin
	// somewhat behind are refused, which only tests want. An etcd compacts as far as it is asked to.
	MinHistory int64
	// VerifyFirst is true if nothing is compacted before Verify has found the store whole.
	VerifyFirst bool
	// CheckPages is true if Verify looks at the pages of an SQLite database too: see CheckSQLiteWithin.
	CheckPages bool
	// Metrics receives kine's series. It must not have them yet: kine registers
	// once in a process.
	Metrics prometheus.Registerer
	// Outage watches a database elsewhere; nil for nobody does.
	Outage *outage.Outage
	// StartTimeout bounds Start. An unreachable database fails after it. An embedded etcd has longer, the larger its files are.
	StartTimeout time.Duration
}

// Store is a running datastore.
type Store struct {
	// Endpoints are etcd endpoints for the API server.
	Endpoints []string
	// Compacts is true if the datastore compacts itself: no client has to.
	Compacts bool
	// Client makes a client that calls the datastore in this process; nil if that has to be dialed. Whoever calls it
	// closes the client.
	Client func() *clientv3.Client

	engine interface{ stop() }
	kine   bool // the engine is a database behind kine
	socket *socket
	disk   *disk // nil if the database is elsewhere
	// verify is Verify on a thread of its own; nil if the database is elsewhere.
	verify func(ctx context.Context, progress func(done, all int64)) (Checked, error)
	// doubtful is true while nothing may be compacted; nil if the database is elsewhere.
	doubtful *atomic.Bool
	ended    <-chan struct{} // closed when the engine has stopped by itself; nil if it never does
	// unwatch ends the watch for outages; nil if there is none, as for SQLite, whose disk says by itself what is wrong.
	unwatch func()
}

// Refusal returns why writes are refused, and the HTTP status that says so; 0 while they are taken.
func (s *Store) Refusal() (code int, text string) {
	if s.disk == nil {
		return 0, ""
	}
	t := s.disk.refusal()
	if t == nil {
		return 0, ""
	}
	return Explain(t.Error())
}

// Revision returns the latest revision whose write has been acknowledged.
func (s *Store) Revision(ctx context.Context) (int64, error) {
	c := s.Client()
	defer func() { _ = c.Close() }() // it has no connection
	got, err := c.Get(ctx, canary)
	if err != nil {
		return 0, fmt.Errorf("reading the revision of the datastore: %w", err)
	}
	return got.Header.Revision, nil
}

// Wait returns when ctx ends, with nil, or when the store must not be used any more, with the reason.
func (s *Store) Wait(ctx context.Context) error {
	var broken chan struct{} // never, if the database is elsewhere
	if s.disk != nil {
		broken = s.disk.broken
	}
	select {
	case <-ctx.Done():
		return nil
	case <-broken:
		return s.disk.refusal()
	case <-s.ended:
		return errors.New("etcd has stopped: see the log")
	}
}

// Start opens the database and returns once a write has been read back. Ending
// ctx abandons the start; it does not stop a Store that has been returned.
func Start(ctx context.Context, o Options) (*Store, error) {
	if o.Endpoint == Etcd {
		return startWithEtcd(ctx, o)
	}
	endpointURL := o.Endpoint
	if endpointURL == "" {
		dsn, err := openSQLite(ctx, o.Dir, o.Synchronous)
		if err != nil {
			return nil, err
		}
		endpointURL = dsn
	} else if _, err := passwordsIn(endpointURL); err != nil { // drivers log pieces of such an endpoint
		return nil, fmt.Errorf("opening the datastore (%s): %w", scheme(endpointURL), err)
	}
	sock, err := newSocket(o.Dir, "kine.sock")
	if err != nil {
		return nil, err
	}
	startCtx, stop := context.WithTimeoutCause(ctx, o.StartTimeout, fmt.Errorf("no answer within %s", o.StartTimeout))
	defer stop()
	type started struct {
		kine *kine
		err  error
	}
	done := make(chan started, 1)
	go func() {
		k, err := startKine(startCtx, o, endpointURL, sock)
		done <- started{k, err}
	}()
	var k started
	select {
	case k = <-done:
	case <-startCtx.Done():
		k.err = context.Cause(startCtx)
		// It goes on until its driver notices, and the process ends soon after.
		go func() {
			if late := <-done; late.err == nil {
				late.kine.stop()
			}
		}()
	}
	if k.err != nil {
		sock.close()
		return nil, fmt.Errorf("opening the datastore (%s): %w", scheme(endpointURL), withoutPassword(k.err, endpointURL))
	}
	s := &Store{Endpoints: k.kine.endpoints, Compacts: compactEvery(endpointURL) > 0, Client: k.kine.client, engine: k.kine, kine: k.kine.grpc != nil, socket: sock, disk: k.kine.disk}
	if o.Endpoint == "" {
		s.verify = func(ctx context.Context, progress func(done, all int64)) (Checked, error) {
			c, err := verifySQLite(ctx, o.Dir, progress)
			if err == nil && len(c.Problems) == 0 && o.CheckPages {
				c, err = verifyPages(ctx, c)
			}
			return c, err
		}
		s.doubtful = &k.kine.rows.doubtful
		s.doubtful.Store(o.VerifyFirst)
	}
	if err := s.try(startCtx); err != nil {
		s.Stop()
		return nil, fmt.Errorf("using the datastore (%s): %w", scheme(endpointURL), withoutPassword(err, endpointURL))
	}
	if s.disk == nil && o.Outage != nil {
		if err := s.watch(o.Outage, endpointURL); err != nil {
			s.Stop()
			return nil, fmt.Errorf("watching the datastore (%s): %w", scheme(endpointURL), withoutPassword(err, endpointURL))
		}
	}
	if o.Full && s.disk != nil {
		s.disk.refuse(&trouble{kind: full, dir: s.disk.dir, err: unix.ENOSPC})
	}
	return s, nil
}

// startWithEtcd is Start for an etcd in this process.
func startWithEtcd(ctx context.Context, o Options) (*Store, error) {
	sock, err := newSocket(o.Dir, "etcd.sock")
	if err != nil {
		return nil, err
	}
	startCtx, stop := withStartLimit(ctx, o.Dir, o.StartTimeout)
	defer stop()
	e, err := startEtcd(startCtx, o, sock)
	if err != nil {
		sock.close()
		return nil, fmt.Errorf("opening the datastore (etcd): %w", err)
	}
	s := &Store{Endpoints: []string{sock.url()}, Compacts: true, Client: e.client, engine: e, socket: sock, disk: e.disk, ended: e.member.StopNotify(), verify: e.verify, doubtful: &e.doubtful}
	if o.Full {
		s.disk.refuse(&trouble{kind: full, dir: s.disk.dir, err: unix.ENOSPC})
		return s, nil // the canary would only be refused
	}
	err = s.try(startCtx)
	if errors.Is(err, rpctypes.ErrNoSpace) {
		e.over.Store(true) // until keep has made room, for which etcd has to run
		s.disk.seenByProbe(e.scarce())
		return s, nil
	}
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("using the datastore (etcd): %w", err)
	}
	return s, nil
}

// Stop closes the database and returns when kine's goroutines have ended. Whoever
// uses the store must have stopped before.
func (s *Store) Stop() {
	if s.unwatch != nil {
		s.unwatch()
	}
	s.engine.stop()
	s.socket.close()
}

// watch starts asking the database at endpointURL whether it answers.
func (s *Store) watch(o *outage.Outage, endpointURL string) error {
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		o.Watch(ctx, func(ctx context.Context) error {
			_, err := c.Get(ctx, canary)
			return withoutPassword(err, endpointURL)
		})
	})
	s.unwatch = func() {
		cancel()
		watching.Wait()
		_ = c.Close() // it has only read
	}
	return nil
}

// canary is the key that a start writes and reads back.
const canary = "/reap/started"

// try returns once a write has been read back, over the socket.
func (s *Store) try(ctx context.Context) (err error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	// Servers that share the datastore may write the key at the same moment: one of
	// them loses that race, and tries again.
	err = retry.OnError(retry.DefaultRetry, func(error) bool { return ctx.Err() == nil }, func() error { return write(ctx, c) })
	if err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	got, err := c.Get(ctx, canary)
	if err != nil {
		return fmt.Errorf("reading back: %w", err)
	}
	if len(got.Kvs) == 0 {
		return errors.New("reading back: what was written is not there")
	}
	return nil
}

// write writes the canary in the only forms of a transaction that kine knows.
func write(ctx context.Context, c *clientv3.Client) error {
	got, err := c.Get(ctx, canary)
	if err != nil {
		return err
	}
	var revision int64 // 0: it must not exist
	if len(got.Kvs) > 0 {
		revision = got.Kvs[0].ModRevision
	}
	txn := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(canary), "=", revision)).
		Then(clientv3.OpPut(canary, time.Now().UTC().Format(time.RFC3339)))
	if revision > 0 {
		txn = txn.Else(clientv3.OpGet(canary))
	}
	answer, err := txn.Commit()
	if err != nil {
		return err
	}
	if !answer.Succeeded {
		return errors.New("another server has written at the same moment")
	}
	return nil
}
