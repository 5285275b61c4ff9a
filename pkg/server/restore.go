package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/pkg/datastore/dump"
	"github.com/reap-dev/reap/pkg/pki"
	"github.com/reap-dev/reap/pkg/snapshot"
)

// beyond is added to the highest known revision to get the revision of a restored datastore, as by etcdutl's usual bump.
// This also exceeds the revisions of a lost datastore whose revision cannot be read.
const beyond = 1_000_000_000

// furthest is a revision that no store comes to: ten thousand writes a second take 28,000 years. A damaged one may claim it.
const furthest = 1 << 53

// Restore configures a restore.
type Restore struct {
	DataDir string
	From    io.Reader
	// Engine is sqlite or etcd: what the datastore is to be; "" is what it was, and SQLite if there was none.
	Engine string
	// WithoutPKI leaves the keys and certificates as they are.
	WithoutPKI bool
	Now        time.Time
	// Version is this build's, for the format file.
	Version string
	// Progress is called after each restored key with the number of restored and of all keys; may be nil.
	Progress func(done, all int64)

	etcdQuota int64 // of an embedded etcd, in bytes; 0, but in tests, is the one that a server has
}

// Restored is the result of a restore. Its fields are stable.
type Restored struct {
	snapshot.Manifest
	// Engine is what the new store is: sqlite or etcd.
	Engine string `json:"engine"`
	// Restored is the revision of the new store.
	Restored int64 `json:"restoredRevision"`
	// Kept are the new paths of the old database, keys and certificates.
	Kept []string `json:"kept,omitempty"`
	// PKIRestored is true if the keys and certificates are the snapshot's.
	PKIRestored bool `json:"pkiRestored"`
}

// restoringFile exists while new files replace the old ones.
func restoringFile(dataDir string) string { return filepath.Join(dataDir, "restoring") }

// checkRestored returns an error if a restore was interrupted: what is in the data directory may be half of each.
func checkRestored(dataDir string) error {
	interrupted, err := exists(restoringFile(dataDir))
	if err != nil || !interrupted {
		return err
	}
	return fmt.Errorf("a restore into %s was interrupted: run 'reap snapshot restore' again", dataDir)
}

// Run verifies the whole snapshot first, without changing anything. Then it reads it again, builds a new datastore beside the old
// one, and swaps them. The old datastore is kept. Run returns an error if a server uses the data directory.
func (r Restore) Run(ctx context.Context) (done Restored, err error) {
	in, forget, err := twice(ctx, r.From, r.DataDir)
	if err != nil {
		return done, err
	}
	defer forget()
	if _, _, err := r.read(ctx, in, func(dump.Record, int64) error { return nil }); err != nil {
		return done, fmt.Errorf("%w; nothing was changed", err)
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return done, fmt.Errorf("reading the snapshot again: %w", err)
	}
	r.From = in
	there, err := exists(r.DataDir)
	if err != nil {
		return done, fmt.Errorf("looking for the data directory: %w", err)
	}
	dir, err := openDataDir(r.DataDir)
	if err != nil {
		return done, err
	}
	defer func() {
		if err != nil && !there {
			dir.remove()
		}
		dir.close()
	}()
	if err := settleBefore(r.DataDir); err != nil {
		return done, err
	}
	if err := removeUnfinished(r.DataDir); err != nil {
		return done, err
	}
	work, err := os.MkdirTemp(r.DataDir, restoringPrefix) // mode 0700, on the same file system
	if err != nil {
		return done, fmt.Errorf("making room for the restore: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // what has not been moved out of it
	built, err := r.build(ctx, work)
	if err != nil {
		return done, err
	}
	// Root may restore the store of a server that runs as another user.
	if err := likeOwner(work, r.DataDir); err != nil {
		return done, fmt.Errorf("giving the restored files to the owner of %s: %w; nothing was changed", r.DataDir, err)
	}
	done.Manifest, done.Engine, done.Restored, done.PKIRestored = built.manifest, built.engine, built.revision, built.pki
	done.Kept, err = r.exchange(work, built)
	return done, err
}

// restoringPrefix is what the names of the folders begin with in which new datastores are built.
const restoringPrefix = ".restoring-"

// removeUnfinished removes what restores have left that were killed: keys of a cluster, which nobody would look for there. The data
// directory is this process's alone.
func removeUnfinished(dataDir string) error {
	entries, err := os.ReadDir(dataDir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), restoringPrefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dataDir, e.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("removing what an interrupted restore has left: %w", err)
	}
	return nil
}

// built describes a new datastore that is complete and on the disk.
type built struct {
	engine   string
	manifest snapshot.Manifest
	revision int64
	pki      bool
}

// build reads the snapshot into a datastore and a PKI directory below work.
func (r Restore) build(ctx context.Context, work string) (b built, err error) {
	floor, err := r.floor(ctx)
	if err != nil {
		return b, err
	}
	if b.engine, err = r.engine(); err != nil {
		return b, err
	}
	sink, err := datastore.NewSink(ctx, work, b.engine)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	keys := int64(0)
	m, files, err := r.read(ctx, r.From, func(record dump.Record, all int64) error {
		if keys++; r.Progress != nil {
			r.Progress(keys, all)
		}
		return sink.Put(record)
	})
	if err != nil {
		return b, err
	}
	b.manifest, b.revision = m, max(m.Revision, floor)+beyond
	if err := sink.Finish(b.revision); err != nil {
		return b, err
	}
	if b.engine == config.EmbeddedEtcd {
		if err := datastore.EtcdHasRoom(work, r.etcdQuota); err != nil {
			return b, fmt.Errorf("%w; restore with --engine sqlite; nothing was changed", err)
		}
	}
	newPKI := config.PKIDir(work)
	if b.pki = m.PKI && !r.WithoutPKI; b.pki {
		if err := pki.Fill(newPKI, files); err != nil {
			return b, err
		}
		return b, writeMarker(newPKI, r.marker(b))
	}
	return b, nil
}

// read reads the snapshot, and returns an error unless it is that of a whole store. each is called with each key and the number
// of keys.
func (r Restore) read(ctx context.Context, in io.Reader, each func(r dump.Record, all int64) error) (m snapshot.Manifest, files map[string][]byte, err error) {
	files = map[string][]byte{}
	var all int64
	var values datastore.Values
	m, err = snapshot.Read(in, snapshot.Visitor{
		Begin: func(m snapshot.Manifest) error {
			if all = m.Keys; m.Revision > furthest {
				return fmt.Errorf("the snapshot is of revision %d, which no store comes to: it is damaged", m.Revision)
			}
			return nil
		},
		File: func(name string, content []byte) error { files[name] = content; return ctx.Err() },
		Key: func(record dump.Record) error {
			if err := values.Check(record); err != nil {
				return fmt.Errorf("the snapshot holds a value that is damaged: %w", err)
			}
			return errors.Join(ctx.Err(), each(record, all))
		},
	})
	if err != nil || !m.PKI || r.WithoutPKI {
		return m, files, err
	}
	if err := pki.Check(files); err != nil {
		return m, files, fmt.Errorf("the snapshot's keys and certificates cannot be used: %w; --without-pki leaves them out", err)
	}
	return m, files, nil
}

func (r Restore) marker(b built) marker {
	return marker{Since: r.Now.UTC().Truncate(time.Second), Revision: b.revision}
}

// floor returns the highest known revision of the old datastore, which may be damaged.
func (r Restore) floor(ctx context.Context) (floor int64, err error) {
	m, _, err := readMarker(config.PKIDir(r.DataDir))
	if err != nil {
		return 0, err
	}
	for _, read := range []func() (int64, error){
		func() (int64, error) { return m.Revision, nil },
		func() (int64, error) {
			before, err := readReached(config.PKIDir(r.DataDir))
			return before.Revision, err
		},
		func() (int64, error) { return datastore.SQLiteRevision(ctx, r.DataDir) },
		func() (int64, error) { return datastore.EtcdRevision(ctx, r.DataDir) },
	} {
		old, err := read()
		if err == nil && old > furthest {
			err = fmt.Errorf("it says that it is at revision %d, which no store comes to", old)
		}
		if err != nil {
			logrus.WithError(err).Warn("cannot read the revision of the old database")
			continue
		}
		floor = max(floor, old)
	}
	return floor, ctx.Err()
}

// engines names the engines of a data directory by the folders of their files.
var engines = map[string]string{"db": datastore.SQLite, "etcd": config.EmbeddedEtcd}

// engine returns what the new datastore is to be.
func (r Restore) engine() (string, error) {
	if r.Engine != "" {
		return r.Engine, nil
	}
	// A restore that was interrupted may have moved the old store away.
	interrupted, err := os.ReadFile(restoringFile(r.DataDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("looking whether a restore was interrupted: %w", err)
	}
	if slices.Contains(slices.Collect(maps.Values(engines)), string(interrupted)) {
		return string(interrupted), nil
	}
	if held, err := datastore.HoldsEtcd(r.DataDir); err != nil || held {
		return config.EmbeddedEtcd, err
	}
	if held, err := datastore.HoldsSQLite(r.DataDir); err != nil || held {
		return datastore.SQLite, err
	}
	// Damage may have taken the files by which a store is recognized.
	if left, err := exists(datastore.FilesIn(r.DataDir, config.EmbeddedEtcd)); err != nil || left {
		return config.EmbeddedEtcd, err
	}
	return datastore.SQLite, nil
}

// exchange replaces the old files by the built ones, and returns the new paths of the old files. If it is interrupted, no
// server starts until another restore has completed.
func (r Restore) exchange(work string, b built) (kept []string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("replacing the old data by the restored data: %w; fix this, then run 'reap snapshot restore' again", err)
		}
	}()
	if err := r.give(restoringFile(r.DataDir), os.WriteFile(restoringFile(r.DataDir), []byte(b.engine), 0o600)); err != nil {
		return nil, err
	}
	if err := syncDir(r.DataDir); err != nil {
		return nil, err
	}
	suffix := ".before-restore-" + r.Now.UTC().Format("20060102T150405Z")
	names := slices.Sorted(maps.Keys(engines)) // the other engine's store goes too: a server takes only one
	if b.pki {
		names = append(names, "pki")
	}
	for _, name := range names {
		moved, err := moveAside(filepath.Join(r.DataDir, name), suffix)
		if err != nil {
			return kept, err
		}
		if moved != "" {
			kept = append(kept, moved)
		}
		if other, isStore := engines[name]; isStore && other != b.engine {
			continue
		}
		if err := os.Rename(filepath.Join(work, name), filepath.Join(r.DataDir, name)); err != nil {
			return kept, err
		}
	}
	if !b.pki {
		if err := forgetReached(r.DataDir); err != nil { // of the database before
			return kept, err
		}
		if err := r.give(config.PKIDir(r.DataDir), writeMarker(config.PKIDir(r.DataDir), r.marker(b))); err != nil {
			return kept, err
		}
	}
	if err := r.give(formatFile(r.DataDir), writeFormat(r.DataDir, r.Version)); err != nil {
		return kept, err
	}
	record := restored{Made: b.manifest.Made, At: r.Now.UTC().Truncate(time.Second)}
	if err := r.give(restoredFile(r.DataDir), writeRecord(restoredFile(r.DataDir), record)); err != nil {
		return kept, err
	}
	if err := os.Remove(restoringFile(r.DataDir)); err != nil {
		return kept, err
	}
	return kept, syncDir(r.DataDir)
}

// give gives what has been written to the owner of the data directory, who has to be able to run an interrupted restore again.
func (r Restore) give(path string, written error) error {
	if written != nil {
		return written
	}
	return likeOwner(path, r.DataDir)
}

// moveAside renames a file or directory and returns its new path, or "" if it does not exist.
func moveAside(path, suffix string) (string, error) {
	to, err := unused(path + suffix)
	if err != nil {
		return "", err
	}
	err = os.Rename(path, to)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return to, err
}
