package datastore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/dustin/go-humanize"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// NewSink begins a store of an engine, SQLite or Etcd, below dir, a data directory that has none.
func NewSink(ctx context.Context, dir, engine string) (dump.Sink, error) {
	if engine == Etcd {
		return NewEtcdSink(ctx, dir)
	}
	return NewSQLiteSink(ctx, dir)
}

// Conversion builds the store of a data directory anew on the other engine. No server may use the data directory.
type Conversion struct {
	Dir string
	// Work is an empty folder on the same disk: the new store is built below it as below a data directory.
	Work string
	// To is the new engine, SQLite or Etcd.
	To string
	// Revision returns the new store's revision from the old one's, which has to be smaller.
	Revision func(old int64) int64
	// Progress is called with the keys done and those that there are, first of the copying, then of the verifying.
	Progress func(step string, done, all int64)
}

// Built is a new store that is complete, on the disk, and compared with the old one.
type Built struct {
	// Keys is how many keys it holds.
	Keys int64
	// OldRevision is the latest of the old store, Revision that of the new one.
	OldRevision, Revision int64
}

// Run returns when the new store is complete and each of its keys has been compared with the old one's. It changes no
// key of the old store; what is left below Work after an error is of no use.
func (c Conversion) Run(ctx context.Context) (b Built, err error) {
	from, err := EngineIn(c.Dir)
	if err != nil {
		return b, err
	}
	if from == SQLite {
		if err := usableSQLite(ctx, c.Dir); err != nil {
			return b, err
		}
	}
	old, err := Open(ctx, c.Dir, false)
	if err != nil {
		return b, err
	}
	defer old.Close()
	if err := c.mustFit(ctx, old); err != nil {
		return b, err
	}
	defer func() {
		if free, known := freeOn(c.Dir); err != nil && known && free < room {
			err = fmt.Errorf("the disk of %s is full (%s free): free space there; %w", c.Dir, humanize.Bytes(uint64(free)), err)
		}
	}()
	head, err := c.build(ctx, old)
	if err != nil {
		return b, err
	}
	b = Built{Keys: head.Keys, OldRevision: head.Revision, Revision: c.Revision(head.Revision)}
	return b, c.verify(ctx, old, b)
}

// mustFit returns an error if the disk, or etcd's quota, is too small for the new store.
func (c Conversion) mustFit(ctx context.Context, old *Opened) error {
	bytes, err := old.bytes(ctx)
	if err != nil {
		return err
	}
	if c.To == Etcd {
		if err := withinQuota(bytes, etcdQuota); err != nil {
			return err
		}
		bytes += bytes + etcdFloor // each commit writes pages anew
	} else {
		bytes += bytes / 4 // pages are not full
	}
	return mustHaveRoom(FilesIn(c.Dir, old.Engine), bytes)
}

// withinQuota returns an error if an embedded etcd that holds so many bytes had hardly any room left below its quota.
func withinQuota(bytes, quota int64) error {
	if bytes <= quota/4*3 {
		return nil
	}
	return fmt.Errorf("the objects take about %s, and an embedded etcd's quota is %s: it would take no more of them; "+
		"an etcd that you run yourself can be given more", humanize.IBytes(uint64(bytes)), humanize.IBytes(uint64(quota)))
}

// EtcdHasRoom returns an error if the etcd store of a data directory is too large to be served. Quota is as in Options.
func EtcdHasRoom(dir string, quota int64) error {
	info, err := os.Stat(etcdDatabase(dir))
	if err != nil {
		return fmt.Errorf("looking at the size of the etcd store: %w", err)
	}
	return withinQuota(info.Size(), cmp.Or(quota, etcdQuota))
}

// build copies all keys into the new store.
func (c Conversion) build(ctx context.Context, old *Opened) (head dump.Head, err error) {
	sink, err := NewSink(ctx, c.Work, c.To)
	if err != nil {
		return head, err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	head, err = dump.Copy(ctx, old, sink, c.step("copying"))
	if err != nil {
		return head, err
	}
	return head, sink.Finish(c.Revision(head.Revision))
}

func (c Conversion) step(name string) func(done, all int64) {
	return func(done, all int64) { c.Progress(name, done, all) }
}

// verify reads both stores and compares them.
func (c Conversion) verify(ctx context.Context, old *Opened, b Built) error {
	if c.To == SQLite {
		if err := usableSQLite(ctx, c.Work); err != nil {
			return err
		}
	}
	built, err := Open(ctx, c.Work, false)
	if err != nil {
		return fmt.Errorf("opening the new store: %w", err)
	}
	defer built.Close()
	// At their revisions: etcd may take a key away meanwhile whose time has come.
	if err := dump.Compare(ctx, old.At(b.OldRevision), built.At(b.Revision), c.step("verifying")); err != nil {
		return fmt.Errorf("comparing the new store with the old one: %w", err)
	}
	return nil
}
