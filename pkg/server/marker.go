package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore"
)

// marker is a file beside the keys. It records that a datastore exists, so that an empty one is recognized as lost:
// serving it as an empty cluster would tell every client that all objects were deleted.
type marker struct {
	// Since is when the datastore was created or restored.
	Since time.Time `json:"since"`
	// Revision is a lower bound for the revision after a restore; 0 if nothing was restored.
	Revision int64 `json:"revision,omitempty"`
}

func markerFile(pkiDir string) string { return filepath.Join(pkiDir, "datastore.json") }

// readMarker returns the marker in a PKI directory; found is false if there is none.
func readMarker(pkiDir string) (m marker, found bool, err error) {
	found, err = readRecord(markerFile(pkiDir), &m)
	if err != nil {
		return m, false, fmt.Errorf("reading the datastore's marker: %w", err)
	}
	return m, found, nil
}

// writeMarker writes the marker into a PKI directory, which it creates if needed, and returns when it is on the disk.
func writeMarker(pkiDir string, m marker) error {
	if err := os.MkdirAll(pkiDir, 0o700); err != nil {
		return fmt.Errorf("writing the datastore's marker: %w", err)
	}
	if err := writeRecord(markerFile(pkiDir), m); err != nil {
		return fmt.Errorf("writing the datastore's marker: %w", err)
	}
	return nil
}

// embedded reports whether the store is in the data directory.
func (s *server) embedded() bool { return s.cfg.DatastoreEndpoint == "" || s.etcd() }

// etcd reports whether it is an etcd there.
func (s *server) etcd() bool { return s.cfg.DatastoreEndpoint == config.EmbeddedEtcd }

// makeRoom returns an error if the disk has no room for a start. See datastore.MakeRoom.
func (s *server) makeRoom() (full bool, err error) {
	if !s.embedded() {
		return false, nil
	}
	return datastore.MakeRoom(s.cfg.DataDir, s.cfg.DatastoreEndpoint)
}

// orFull returns err, or if the data directory's disk is full and the start has failed for that, what to do about it.
func (s *server) orFull(err error) error {
	if !s.embedded() {
		return err
	}
	return datastore.ExplainFull(s.cfg.DataDir, err)
}

// checkStore returns an error if the datastore has vanished or is damaged, and what it lacks if a server may go on without it. It changes
// nothing of it.
func (s *server) checkStore(ctx context.Context) (gone *loss, err error) {
	if !s.embedded() {
		return nil, nil
	}
	if err := checkRestored(s.cfg.DataDir); err != nil {
		return nil, err
	}
	if err := s.checkEngine(); err != nil {
		return nil, err
	}
	empty, lacks, err := s.checkFiles(ctx)
	if err != nil {
		return nil, err
	}
	m, marked, err := readMarker(config.PKIDir(s.cfg.DataDir))
	if err != nil {
		return nil, err
	}
	if !empty && !s.etcd() {
		if gone, err = s.lost(ctx, lacks); gone != nil {
			err = s.accept(gone)
		}
		return gone, err
	}
	if !empty || !marked {
		return nil, nil
	}
	if s.cfg.NewStore {
		logrus.WithField("before", m.Since).Warn("beginning with an empty database, as --new-store asks for")
		return nil, forgetReached(s.cfg.DataDir)
	}
	return nil, s.vanished()
}

// vanished is the error of a store that the marker knows and that is gone.
func (s *server) vanished() error {
	return fmt.Errorf("the database in %s is empty or missing, although there was one before (according to %s): "+
		"mount its disk, restore a snapshot with 'reap snapshot restore', or start with an empty database with --new-store",
		s.cfg.DataDir, markerFile(config.PKIDir(s.cfg.DataDir)))
}

// checkEngine returns an error if the data directory holds a store of the other engine: a server on an empty one beside it
// would tell every client that all objects were deleted.
func (s *server) checkEngine() error {
	if s.etcd() {
		held, err := datastore.HoldsSQLite(s.cfg.DataDir)
		if held {
			err = fmt.Errorf("--datastore-endpoint: the data directory %s holds an SQLite database: leave out the option to go on with it, "+
				"move the objects with 'reap db convert --to etcd', or choose another directory with --data-dir", s.cfg.DataDir)
		}
		return err
	}
	held, err := datastore.HoldsEtcd(s.cfg.DataDir)
	if held {
		err = fmt.Errorf("the data directory %s holds an etcd store: go on with it with --datastore-endpoint=etcd, "+
			"move the objects with 'reap db convert --to sqlite', or choose another directory with --data-dir", s.cfg.DataDir)
	}
	return err
}

// checkFiles looks at the store's files: empty is true if they hold nothing, and lacks if SQLite's log lacks writes that it had.
func (s *server) checkFiles(ctx context.Context) (empty, lacks bool, err error) {
	if s.etcd() {
		held, err := datastore.HoldsEtcd(s.cfg.DataDir)
		return !held, false, err
	}
	if lacks, err = s.logLacks(); err != nil {
		return false, false, err
	}
	empty, s.pages, err = datastore.CheckSQLiteWithin(ctx, s.cfg.DataDir, datastore.QuickCheck)
	if err != nil {
		return false, false, err
	}
	return empty, lacks, datastore.KeepBrokenLog(s.cfg.DataDir)
}

// synced reports whether each write is on the disk before it is acknowledged.
func (s *server) synced() bool { return s.etcd() || s.cfg.SQLiteSynchronous == "full" }

// durability says what a power cut takes.
func (s *server) durability() string {
	if !s.etcd() && s.cfg.SQLiteSynchronous == "normal" {
		return "a power cut may lose the last acknowledged writes (--sqlite-synchronous=normal)"
	}
	return "each write is synced before it is acknowledged"
}

// markStore writes the marker once the API server's initial objects are in the datastore and on the disk. If a first
// start is cut off before, the next one must not take the datastore for lost.
func (s *server) markStore(ctx context.Context) error {
	dir := config.PKIDir(s.cfg.DataDir)
	if !s.embedded() {
		return nil
	}
	if _, marked, err := readMarker(dir); err != nil || marked {
		return err
	}
	logrus.WithFields(logrus.Fields{"datastore": s.engine(), "durability": s.durability()}).Info("the data directory is new")
	if !s.etcd() { // etcd has synced everything
		if err := datastore.SyncSQLite(ctx, s.cfg.DataDir); err != nil {
			return err
		}
	}
	return writeMarker(dir, marker{Since: time.Now().UTC().Truncate(time.Second)})
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
