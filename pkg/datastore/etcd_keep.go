package datastore

import (
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sys/unix"
)

const (
	// lookEvery is how often etcd's disk and quota are looked at.
	lookEvery = 2 * time.Second
	// etcdFloor is how much of the disk has to stay free, beside the reserve: the next file of the log, and what etcd
	// writes between two looks. etcd cannot go on once a write has failed.
	etcdFloor = 24 << 20
	// defragmentEvery is how often the database's free pages are counted. They are given back if they are more than
	// defragmentFrom and than half of it, and nothing was written since the last count.
	defragmentEvery = time.Minute
	defragmentFrom  = 16 << 20
)

// keep looks after the disk, the quota and the free pages until ctx ends.
func (e *etcd) keep(ctx context.Context) {
	look, count := time.NewTicker(lookEvery), time.NewTicker(defragmentEvery)
	defer look.Stop()
	defer count.Stop()
	for seen, looked := int64(0), int64(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			// etcd counts what it has committed, which it does every five seconds, or after a thousand changes.
			if size, _ := e.sizes(); size > e.quota-etcdSpare && e.member.KV().Rev() != looked {
				e.member.Backend().ForceCommit()
				looked = e.member.KV().Rev()
			}
			if e.overQuota() {
				e.relieve(ctx)
			}
			if err := e.scarce(); err != nil {
				e.disk.seenByProbe(err)
			}
		case <-count.C:
			seen = e.giveBack(seen)
		}
	}
}

// giveBack gives free pages back if they are many, and if nothing was written since the revision that was seen. It returns the
// revision now.
func (e *etcd) giveBack(seen int64) int64 {
	revision := e.member.KV().Rev()
	if size, used := e.sizes(); revision == seen && size-used > max(defragmentFrom, used) {
		e.defragment()
	}
	return revision
}

// scarce returns why nothing but deletions may be written; nil if everything may.
func (e *etcd) scarce() error {
	if e.overQuota() {
		return fmt.Errorf("etcd's quota of %s is used up: delete objects: %w", humanize.IBytes(uint64(e.quota)), unix.ENOSPC)
	}
	if free, known := e.disk.free(); known && free < etcdFloor+e.disk.reserve.missing() {
		return fmt.Errorf("%s are free, and etcd needs %s: %w",
			humanize.IBytes(uint64(free)), humanize.IBytes(etcdFloor), unix.ENOSPC)
	}
	return nil
}

// left returns how much is left of what is kept for deletions, from 0 to 1: of the disk, and of what the database may take beyond its quota.
func (e *etcd) left() float64 {
	size, _ := e.sizes()
	left := float64(e.quota+etcdSpare-size) / etcdSpare
	if free, known := e.disk.free(); known {
		left = min(left, float64(free)/float64(etcdFloor+e.disk.reserve.size))
	}
	return min(1, left)
}

// overQuota reports whether the database must not grow. It does so until relieve has made room.
func (e *etcd) overQuota() bool {
	if size, _ := e.sizes(); size > e.quota || e.alarmed() {
		e.over.Store(true)
	}
	return e.over.Load()
}

// alarmed reports whether etcd refuses to grow by itself.
func (e *etcd) alarmed() bool {
	for _, alarm := range e.member.Alarms() {
		if alarm.Alarm == etcdserverpb.AlarmType_NOSPACE {
			return true
		}
	}
	return false
}

// relieve makes room below the quota, if there is any to make: it forgets the history and the free pages.
func (e *etcd) relieve(ctx context.Context) {
	server := e.member
	_, err := compactable{e}.Compact(ctx, &etcdserverpb.CompactionRequest{Revision: server.KV().Rev(), Physical: true})
	if err != nil {
		logrus.WithError(err).Debug("etcd's history cannot be compacted") // there may be none
	}
	enough := e.quota / 10
	if size, used := e.sizes(); size-used > enough {
		e.defragment()
	}
	if size, _ := e.sizes(); size > e.quota-enough {
		return
	}
	if !e.alarmed() {
		e.over.Store(false)
		return
	}
	_, err = server.Alarm(ctx, &etcdserverpb.AlarmRequest{
		Action: etcdserverpb.AlarmRequest_DEACTIVATE, MemberID: uint64(server.MemberID()), Alarm: etcdserverpb.AlarmType_NOSPACE,
	})
	if err != nil {
		logrus.WithError(err).Debug("etcd keeps its alarm")
		return
	}
	e.over.Store(false)
}

// compactable is an etcd whose history is kept while it may be damaged. etcd compacts rows away that its index does not have.
type compactable struct{ *etcd }

func (c compactable) Compact(ctx context.Context, r *etcdserverpb.CompactionRequest) (*etcdserverpb.CompactionResponse, error) {
	if c.doubtful.Load() {
		return nil, errDoubtful
	}
	return c.member.Compact(ctx, r)
}

// sizes returns how large the database is, and how much of that is no free pages.
func (e *etcd) sizes() (size, used int64) {
	b := e.member.Backend()
	return b.Size(), b.SizeInUse()
}

// defragment writes the database anew without its free pages, if the disk has room for both. Nobody can read or write
// meanwhile.
func (e *etcd) defragment() {
	before, used := e.sizes()
	if free, known := e.disk.free(); known && free < used+etcdFloor {
		return
	}
	began := time.Now()
	if err := e.member.Backend().Defrag(); err != nil {
		logrus.WithError(err).Warn("etcd's database cannot be defragmented; it stays as large as it is")
		return
	}
	after, _ := e.sizes()
	logrus.WithFields(logrus.Fields{
		"before": humanize.IBytes(uint64(before)), "after": humanize.IBytes(uint64(after)),
		"took": time.Since(began).Round(time.Millisecond).String(),
	}).Debug("etcd's database is defragmented")
}
