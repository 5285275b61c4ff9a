package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore"
)

// Convert configures a conversion of a data directory's store to the other engine.
type Convert struct {
	DataDir string
	// To is sqlite or etcd.
	To  string
	Now time.Time
	// Progress is called with the step, and the keys done and all of them.
	Progress func(step string, done, all int64)
}

// Converted is the result of a conversion. Its fields are stable.
type Converted struct {
	From string `json:"from"`
	To   string `json:"to"`
	Keys int64  `json:"keys"`
	// OldRevision is the latest of the old store, Revision that of the new one.
	OldRevision int64 `json:"oldRevision"`
	Revision    int64 `json:"revision"`
	// Kept is the new path of the old store's folder.
	Kept string `json:"kept"`
}

// exchange is the content of the file that exists while a converted store takes the old one's place.
type exchange struct {
	From     string    `json:"from"`
	To       string    `json:"to"`
	Kept     string    `json:"kept"`
	Revision int64     `json:"revision"`
	At       time.Time `json:"at"`
}

func convertingFile(dataDir string) string { return filepath.Join(dataDir, "converting.json") }

// conversionDir is where a new store is built. The lock of the data directory is its lock, too.
func conversionDir(dataDir string) string { return filepath.Join(dataDir, ".converting") }

// Run builds a new store beside the old one, compares them, and exchanges them then. The old one is kept. Run returns an
// error if a server uses the data directory.
//
// It may be killed at any time. Until the file of the exchange is written, the old store is in its place, and the next
// start, restore or conversion removes what had been built. From then on, these complete the exchange.
func (c Convert) Run(ctx context.Context) (done Converted, err error) {
	if exchanging, err := exists(convertingFile(c.DataDir)); err != nil {
		return done, err
	} else if _, err := datastore.EngineIn(c.DataDir); err != nil && !exchanging {
		return done, err // before a directory is made for the lock
	}
	dir, err := openDataDir(c.DataDir)
	if err != nil {
		return done, err
	}
	defer dir.close()
	if err := CheckFormat(c.DataDir); err != nil {
		return done, err
	}
	if err := checkRestored(c.DataDir); err != nil {
		return done, err
	}
	interrupted, err := settle(c.DataDir)
	if err != nil {
		return done, err
	}
	if done.From, err = datastore.EngineIn(c.DataDir); err != nil {
		return done, err
	}
	if done.To = c.To; done.From == c.To {
		if interrupted != nil {
			return Converted{From: interrupted.From, To: c.To, Revision: interrupted.Revision, Kept: interrupted.Kept}, nil
		}
		return done, fmt.Errorf("--to: the datastore in %s is %s already", c.DataDir, c.To)
	}
	e, err := c.prepare(ctx, &done)
	if err != nil {
		return done, fmt.Errorf("converting the datastore in %s to %s: %w; nothing was changed",
			c.DataDir, c.To, errors.Join(err, os.RemoveAll(conversionDir(c.DataDir))))
	}
	if _, err := e.complete(c.DataDir); err != nil {
		return done, err
	}
	return done, nil
}

// prepare builds the new store, and writes the file of the exchange.
func (c Convert) prepare(ctx context.Context, done *Converted) (e exchange, err error) {
	m, _, err := readMarker(config.PKIDir(c.DataDir))
	if err != nil {
		return e, err
	}
	work, old := conversionDir(c.DataDir), datastore.FilesIn(c.DataDir, done.From)
	place := datastore.FilesIn(c.DataDir, c.To)
	if taken, err := exists(place); err != nil || taken {
		return e, errors.Join(err, fmt.Errorf("%s is there and holds no store: move it away", place))
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return e, err
	}
	built, err := datastore.Conversion{
		Dir: c.DataDir, Work: work, To: c.To, Progress: c.Progress,
		Revision: func(old int64) int64 { return max(old, m.Revision) + beyond },
	}.Run(ctx)
	if err != nil {
		return e, err
	}
	done.Keys, done.OldRevision, done.Revision = built.Keys, built.OldRevision, built.Revision
	if done.Kept, err = unused(old + ".before-convert-" + c.Now.UTC().Format("20060102T150405Z")); err != nil {
		return e, err
	}
	// Root may convert the store of a server that runs as another user.
	if err := errors.Join(likeOwner(work, old), syncDir(work), ctx.Err()); err != nil {
		return e, err
	}
	e = exchange{From: done.From, To: c.To, Kept: done.Kept, Revision: done.Revision, At: c.Now.UTC().Truncate(time.Second)}
	if err := writeRecord(convertingFile(c.DataDir), e); err != nil {
		for _, path := range []string{convertingFile(c.DataDir), convertingFile(c.DataDir) + ".next"} {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return e, err
			}
		}
		return e, err
	}
	return e, nil
}

// settle ends a conversion that was killed: it completes the exchange if that had begun, which it returns, and otherwise
// removes what had been built. The caller holds the lock of the data directory.
func settle(dataDir string) (*exchange, error) {
	if err := mustBeWritable(dataDir); err != nil {
		return nil, err
	}
	var e exchange
	found, err := readRecord(convertingFile(dataDir), &e)
	if err != nil {
		return nil, fmt.Errorf("looking whether a conversion was interrupted: %w", err)
	}
	if found {
		return e.complete(dataDir)
	}
	if err := os.RemoveAll(conversionDir(dataDir)); err != nil {
		return nil, fmt.Errorf("removing what an interrupted conversion has left: %w", err)
	}
	return nil, nil
}

// complete moves the new store into its place and the old one aside, as far as that has not been done.
func (e exchange) complete(dataDir string) (_ *exchange, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("putting the converted datastore into its place in %s: %w; mend that, then run 'reap db convert' again, "+
				"or start the server: both go on with it", dataDir, err)
		}
	}()
	if e.From == "" || e.To == "" || e.Kept == "" {
		return nil, fmt.Errorf("%s is damaged", convertingFile(dataDir))
	}
	old, work := datastore.FilesIn(dataDir, e.From), conversionDir(dataDir)
	// Both are there in between: a build that has both engines and does not know the file refuses to start then.
	for _, move := range [][2]string{{datastore.FilesIn(work, e.To), datastore.FilesIn(dataDir, e.To)}, {old, e.Kept}} {
		if err := os.Rename(move[0], move[1]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if err := os.Remove(filepath.Join(e.Kept, "reserve")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	pkiDir := config.PKIDir(dataDir)
	m, marked, err := readMarker(pkiDir)
	if err != nil {
		return nil, err
	}
	if m.Revision = e.Revision; !marked {
		m.Since = e.At
	}
	if err := writeMarker(pkiDir, m); err != nil {
		return nil, err
	}
	if err := errors.Join(likeOwner(markerFile(pkiDir), pkiDir), syncDir(dataDir)); err != nil {
		return nil, err
	}
	if err := errors.Join(os.RemoveAll(work), os.Remove(convertingFile(dataDir)), syncDir(dataDir)); err != nil {
		return nil, err
	}
	return &e, nil
}

// settleBefore is settle for commands that go on with whichever engine there is then.
func settleBefore(dataDir string) error {
	e, err := settle(dataDir)
	if e != nil {
		logrus.WithFields(logrus.Fields{"datastore": e.To, "kept": e.Kept}).Warn("an interrupted conversion of the datastore is complete now")
	}
	return err
}

// unused returns a path, or one that begins with it, at which there is nothing.
func unused(path string) (string, error) {
	for n, to := 2, path; ; n++ {
		taken, err := exists(to)
		if err != nil || !taken {
			return to, err
		}
		to = fmt.Sprintf("%s-%d", path, n)
	}
}

// likeOwner gives a tree to the owner of a model, if root asks for it. Nobody else could, nor has to: what others write is their own.
func likeOwner(tree, model string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(model)
	if err != nil {
		return err
	}
	want, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if is, ok := info.Sys().(*syscall.Stat_t); ok && (is.Uid != want.Uid || is.Gid != want.Gid) {
			return os.Lchown(path, int(want.Uid), int(want.Gid))
		}
		return nil
	})
}
