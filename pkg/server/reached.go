package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore"
)

// markEvery is how often the revision that the database has reached is written down, if it has moved. A loss of the writes
// since then alone is not noticed.
const markEvery = 30 * time.Second

// reached is the content of a file beside the keys: a revision that the SQLite database had come to. A database that is behind it has lost
// writes that were acknowledged, as when its write-ahead log was removed after a kill: SQLite itself takes a missing log for an empty one.
type reached struct {
	Revision int64 `json:"revision"`
	// Synced is true if each write was on the disk before it was acknowledged, so that not even a power cut takes it away.
	Synced bool `json:"synced"`
	// Boot is the machine's boot in which it was written.
	Boot string `json:"boot,omitempty"`
}

// boot identifies the machine's boot, which ends when the power is cut; "" if that is not known.
func boot() string {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// logLacks reports whether SQLite's log lacks writes that it had.
func (s *server) logLacks() (bool, error) {
	r, err := readReached(config.PKIDir(s.cfg.DataDir))
	if err != nil {
		return false, err
	}
	return datastore.LogLacks(s.cfg.DataDir, r.Synced, r.Boot != "" && r.Boot == boot())
}

func reachedFile(pkiDir string) string { return filepath.Join(pkiDir, "reached.json") }

// readReached returns the mark, which is empty if there is none: a new database, or one of a build from before the mark.
func readReached(pkiDir string) (r reached, err error) {
	raw, err := os.ReadFile(reachedFile(pkiDir))
	if errors.Is(err, fs.ErrNotExist) {
		return reached{}, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err == nil && r.Revision < 1 {
		err = errors.New("it names no revision")
	}
	if err != nil {
		return reached{}, fmt.Errorf("reading which revision the database had reached: %s: %w; remove the file to start without knowing that", reachedFile(pkiDir), err)
	}
	return r, nil
}

// loss is what an SQLite database lacks.
type loss struct {
	found, reached int64
	synced         bool
}

// lost returns what the database lacks; nil if it is not behind its mark, and its log does not lack writes.
func (s *server) lost(ctx context.Context, lacks bool) (*loss, error) {
	r, err := readReached(config.PKIDir(s.cfg.DataDir))
	if err != nil || r.Revision == 0 {
		return nil, err
	}
	found, err := datastore.SQLiteRevision(ctx, s.cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("reading the revision of the database: %w", err)
	}
	if found >= r.Revision && lacks {
		// SQLite has forgotten by the next start that the log was longer.
		r.Revision = found + 1
		if err := writeRecord(reachedFile(config.PKIDir(s.cfg.DataDir)), r); err != nil {
			return nil, fmt.Errorf("noting that the database lacks writes: %w", err)
		}
	}
	if found >= r.Revision {
		return nil, nil
	}
	return &loss{found: found, reached: r.Revision, synced: r.Synced}, nil
}

// accept returns an error unless a server may go on without what is lost: the operator has said so, or a power cut may take the last
// writes by the level that was chosen.
func (s *server) accept(l *loss) error {
	if !l.synced || s.cfg.AcceptRevision == strconv.FormatInt(l.found, 10) {
		return nil
	}
	return fmt.Errorf("the database in %s ends with revision %d, and had come to revision %d or further: acknowledged writes are missing, as if its "+
		"log %s had been removed or damaged after a kill. Put back what is missing, restore a snapshot with 'reap snapshot restore', or go on without "+
		"it with --accept-revision=%d, which holds the collector until 'reap resume'; nothing was changed",
		s.cfg.DataDir, l.found, l.reached, filepath.Join("db", "state.db-wal"), l.found)
}

// goOn makes the next start of the collector and the controllers that delete a held one, and no revision is given out twice. It may be cut
// off at any time: the database is behind its mark until that is done.
func (s *server) goOn(ctx context.Context, l *loss) error {
	held := restored{At: time.Now().UTC().Truncate(time.Second), Found: l.found, Lost: l.reached - l.found}
	if err := writeRecord(restoredFile(s.cfg.DataDir), held); err != nil {
		return fmt.Errorf("noting that the collector is to be held: %w", err)
	}
	// The mark is older than the last write: this is further than any revision that was given out.
	return datastore.RaiseSQLite(ctx, s.cfg.DataDir, l.reached+beyond)
}

// mark writes the revision down that the store has reached, until ctx ends, and once more then. A failure only makes the mark older.
func (s *server) mark(ctx context.Context, store *datastore.Store) {
	if s.etcd() || !s.embedded() {
		return // etcd does not start without its log
	}
	log := logrus.WithField("component", "datastore")
	var last reached
	write := func(ctx context.Context) {
		revision, err := store.Revision(ctx)
		now := reached{Revision: revision, Synced: s.synced(), Boot: boot()}
		if err == nil && now != last {
			if err = writeRecord(reachedFile(config.PKIDir(s.cfg.DataDir)), now); err == nil {
				last = now
			}
		}
		if err != nil {
			log.WithError(err).Debug("cannot write down which revision the database has reached")
		}
	}
	wait.UntilWithContext(ctx, write, markEvery)
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	write(within)
}

// forgetReached removes the mark of a database that is begun anew.
func forgetReached(dataDir string) error {
	if err := os.Remove(reachedFile(config.PKIDir(dataDir))); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the mark of the database before: %w", err)
	}
	return nil
}
