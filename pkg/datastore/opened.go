package datastore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// SQLite is the name of the engine that has no endpoint.
const SQLite = "sqlite"

// EngineIn returns which engine's store a data directory holds: SQLite or Etcd. None, and both, are errors.
func EngineIn(dir string) (string, error) {
	sqlite, err := HoldsSQLite(dir)
	if err != nil {
		return "", err
	}
	etcd, err := HoldsEtcd(dir)
	switch {
	case err != nil:
		return "", err
	case sqlite && etcd:
		return "", fmt.Errorf("the data directory %s holds the stores of both engines, in %s and %s: move the one away that no server uses",
			dir, FilesIn(dir, SQLite), FilesIn(dir, Etcd))
	case sqlite:
		return SQLite, nil
	case etcd:
		return Etcd, nil
	}
	return "", fmt.Errorf("%w in %s: name the data directory of a reap server with --data-dir", errNoDatabase, dir)
}

// Opened is the store of a data directory, opened to be read. It may be used concurrently.
type Opened struct {
	// Engine is SQLite or Etcd.
	Engine string

	dir    string
	client *clientv3.Client // nil if SQLite's file is read
	close  func()
}

var _ dump.Source = (*Opened)(nil)

// Open opens the store of a data directory. If a server runs on it (served), that is asked on its socket, page by page, so
// that nothing has to wait. Otherwise the caller makes sure that none starts meanwhile: an SQLite database is read from its
// file then, and an etcd is started for the caller alone. That may write to its log, but no key changes.
func Open(ctx context.Context, dir string, served bool) (*Opened, error) {
	engine, err := EngineIn(dir)
	if err != nil {
		return nil, err
	}
	o := &Opened{Engine: engine, dir: dir, close: func() {}}
	switch {
	case served:
		err = o.dial(ctx)
	case engine == Etcd:
		err = o.startAlone(ctx)
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Close ends what Open has started.
func (o *Opened) Close() { o.close() }

// answerWithin is how long a running server's datastore may take to answer.
const answerWithin = 10 * time.Second

// dial connects to the socket of a running server.
func (o *Opened) dial(ctx context.Context) error {
	name := map[string]string{SQLite: "kine.sock", Etcd: "etcd.sock"}[o.Engine]
	sock, err := newSocket(o.dir, name)
	if err != nil {
		return err
	}
	if _, err := os.Stat(sock.path); err != nil { // a connection would wait for it
		sock.forget()
		return o.silent(name, err)
	}
	o.client, err = clientv3.New(clientv3.Config{Endpoints: []string{sock.url()}, Context: ctx})
	if err != nil {
		sock.forget()
		return err
	}
	o.close = func() {
		_ = o.client.Close() // it has only read
		sock.forget()
	}
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if _, err := o.client.Status(within, sock.url()); err != nil {
		o.close()
		return o.silent(name, err)
	}
	return nil
}

func (o *Opened) silent(socket string, err error) error {
	return fmt.Errorf("another process uses the data directory %s, and does not answer on %s: %w; try again when the server is ready, or stop it",
		o.dir, filepath.Join(o.dir, socket), err)
}

// startAlone starts the etcd of the data directory without a socket.
func (o *Opened) startAlone(ctx context.Context) error {
	if err := mustHaveRoom(etcdDir(o.dir), etcdFloor); err != nil { // it opens a log of its own
		return err
	}
	ctx, cancel := withStartLimit(ctx, o.dir, time.Minute)
	defer cancel()
	log := newEtcdLog(etcdDir(o.dir))
	member, err := startMember(ctx, o.dir, etcdQuota, log)
	if err != nil {
		return fmt.Errorf("opening the datastore (etcd): %w", err)
	}
	// If it gives up, as on a disk that fills, what reads it fails, and nobody has lost anything.
	log.guarded.Store(true)
	o.client = servicesOf(member).client()
	o.close = func() {
		_ = o.client.Close() // it has no connection
		_ = log.guard(context.Background(), member.Stop)
	}
	return nil
}

// Read implements dump.Source.
func (o *Opened) Read(ctx context.Context, begin func(dump.Head) error, each func(dump.Record) error) error {
	return o.At(0).Read(ctx, begin, each)
}

// At returns the store as it is at a revision, 0 for the latest. A file is always read as it is now.
func (o *Opened) At(revision int64) dump.Source {
	if o.client == nil {
		return sqliteSource{o.dir}
	}
	return dump.Etcd{Client: o.client, Kine: o.Engine == SQLite, Revision: revision}
}

// bytes returns about how much room the store takes without its free pages.
func (o *Opened) bytes(ctx context.Context) (int64, error) {
	if o.client == nil {
		return sqliteSource{o.dir}.bytes(ctx)
	}
	s, err := o.status(ctx)
	if err != nil {
		return 0, err
	}
	return s.DbSizeInUse, nil
}

func (o *Opened) status(ctx context.Context) (*clientv3.StatusResponse, error) {
	endpoint := ""
	if all := o.client.Endpoints(); len(all) > 0 {
		endpoint = all[0]
	}
	s, err := o.client.Status(ctx, endpoint)
	if err != nil {
		return nil, fmt.Errorf("asking etcd for its size: %w", err)
	}
	return s, nil
}
