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
	"go.etcd.io/etcd/api/v3/etcdserverpb"
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
	// Outage watches a database elsewhere, and Start waits for it; nil for neither.
	Outage *outage.Outage
	// Away bounds how long that database may not answer, in Start and later; 0 means for ever.
	Away time.Duration
	// Waiting is called from time to time while Start waits for that database; nil for nothing.
	Waiting func()
	// StartTimeout bounds Start once the database answers. An embedded etcd has longer, the larger its files are.
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
	// writable is of a database elsewhere; nil for any other.
	writable *writable
	// away has the reason once a database elsewhere has not answered for too long.
	away chan error
	// verify is Verify on a thread of its own; nil if the database is elsewhere.
	verify func(ctx context.Context, progress func(done, all int64)) (Checked, error)
	// left is Left; nil if the database is elsewhere.
	left func() float64
	// doubtful is true while nothing may be compacted; nil if the database is elsewhere.
	doubtful *atomic.Bool
	ended    <-chan struct{} // closed when the engine has stopped by itself; nil if it never does
	// clean takes the passwords of the endpoint out of an error; nil if it has none.
	clean func(error) error
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

// Trouble says why the datastore takes no writes, also where each write finds that out by itself; "" while it does.
func (s *Store) Trouble() string {
	if s.writable != nil {
		return s.writable.why()
	}
	_, text := s.Refusal()
	return text
}

// Explain is the package's Explain for the answers of an API server that uses the store.
func (s *Store) Explain(message string) (code int, text string) {
	if s.writable != nil && !s.kine {
		return explainEtcd(message)
	}
	code, text = Explain(message)
	if s.writable == nil || code == 0 || text == awayText {
		return code, text
	}
	if why := s.writable.why(); why != "" { // which is more than the write that failed knows
		return code, why
	}
	return code, text
}

// Left returns how much of the room that is kept for deletions is left, from 0 to 1.
func (s *Store) Left() float64 {
	if s.left == nil {
		return 1
	}
	return s.left()
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
	case err := <-s.away:
		return err
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
	} else {
		var err error
		if endpointURL, err = driversEndpoint(endpointURL); err == nil && o.Outage != nil {
			err = o.await(ctx, endpointURL)
		}
		if err != nil {
			return nil, fmt.Errorf("opening the datastore (%s): %w", scheme(o.Endpoint), err)
		}
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
	s.clean = func(err error) error { return withoutPassword(err, endpointURL) }
	s.writable = k.kine.writable
	if o.Endpoint == "" {
		s.verify = func(ctx context.Context, progress func(done, all int64)) (Checked, error) {
			c, err := verifySQLite(ctx, o.Dir, progress)
			if err == nil && len(c.Problems) == 0 && o.CheckPages {
				c, err = verifyPages(ctx, c)
			}
			return c, err
		}
		s.left = k.kine.rows.thrift.left
		s.doubtful = &k.kine.rows.doubtful
		s.doubtful.Store(o.VerifyFirst)
	}
	err = s.try(startCtx)
	if s.writable != nil && errors.Is(err, rpctypes.ErrNoSpace) { // an etcd elsewhere, whose operator makes room
		s.writable.saw(&trouble{kind: full, err: errQuota})
		err = nil
	}
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("using the datastore (%s): %w", scheme(endpointURL), withoutPassword(err, endpointURL))
	}
	if s.disk == nil && o.Outage != nil {
		if err := s.watch(o, endpointURL, &k.kine.hidden); err != nil {
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
	s := &Store{Endpoints: []string{sock.url()}, Compacts: true, Client: e.client, engine: e, socket: sock, disk: e.disk, ended: e.member.StopNotify(), verify: e.verify, left: e.left, doubtful: &e.doubtful}
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

// await returns when the database at endpointURL answers. The error is that it refuses the server, or has not answered for too long.
func (o Options) await(ctx context.Context, endpointURL string) error {
	ask, err := asks(endpointURL)
	if err != nil {
		return withoutPassword(err, endpointURL)
	}
	waiting := o.Waiting
	if waiting == nil {
		waiting = func() {}
	}
	return outage.Await(ctx, o.Away, func(ctx context.Context) error { return withoutPassword(ask(ctx), endpointURL) }, refusesUs, waiting)
}

// watch starts asking the database at endpointURL whether it answers, and an etcd elsewhere whether it takes writes. Clients are not shown
// the hidden errors, but the log is.
func (s *Store) watch(o Options, endpointURL string, hidden *lastError) error {
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.away = make(chan error, 1)
	var watching sync.WaitGroup
	watching.Go(func() {
		err := o.Outage.Watch(ctx, o.Away, func(ctx context.Context) error {
			_, err := c.Get(ctx, canary)
			if err == nil && !s.kine {
				s.lookForAlarm(ctx, c)
			}
			return withoutPassword(hidden.instead(err), endpointURL)
		})
		if err != nil {
			s.away <- err
		}
	})
	s.unwatch = func() {
		cancel()
		watching.Wait()
		_ = c.Close() // it has only read
	}
	return nil
}

// lookForAlarm asks an etcd elsewhere whether its quota is used up. One that does not tell us is taken for one that has room.
func (s *Store) lookForAlarm(ctx context.Context, c *clientv3.Client) {
	answer, err := c.AlarmList(ctx)
	if err != nil {
		return
	}
	for _, a := range answer.Alarms {
		if a.Alarm == etcdserverpb.AlarmType_NOSPACE {
			s.writable.saw(&trouble{kind: full, err: errQuota})
			return
		}
	}
	s.writable.saw(nil)
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

// write writes the canary.
func write(ctx context.Context, c *clientv3.Client) error {
	got, err := c.Get(ctx, canary)
	if err != nil {
		return err
	}
	var revision int64
	if len(got.Kvs) > 0 {
		revision = got.Kvs[0].ModRevision
	}
	written, err := swap(ctx, c, canary, time.Now().UTC().Format(time.RFC3339), revision)
	if err == nil && !written {
		err = errors.New("another server has written at the same moment")
	}
	return err
}
