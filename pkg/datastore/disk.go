package datastore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/reap-dev/reap/pkg/datastore/outage"
)

const (
	// probeFirst and probeMost bound how often a disk that takes no writes is tried again: the pause doubles.
	probeFirst = 250 * time.Millisecond
	probeMost  = 10 * time.Second
	// room is how much has to be free, beside the reserve, before writes are taken again: a write that frees one
	// block would otherwise let all clients in for the next.
	room = 1 << 20
	// scarce is what counts as no space where SQLite's error does not say what was wrong.
	scarce = 64 << 10
)

// disk is where SQLite's file is, or etcd's are. It knows whether that takes writes, and tries again until it does.
type disk struct {
	dir     string // of the database
	reserve *reserve
	gauge   *prometheus.GaugeVec
	tried   chan struct{} // one token: the probe has something to do
	broken  chan struct{} // closed when a sync has failed
	freed   chan struct{} // one token: there may be room again
	more    func() error  // makes room, and says what else keeps writes from being taken again; nil for nothing else
	inside  func() int64  // how many bytes the database has free within its file; nil for none that are known

	// mu protects what follows.
	mu      sync.Mutex
	refuses *trouble          // nil while writes are taken
	remind  *outage.Reminders // since then
}

func newDisk(dir string, reserveSize int64, metrics prometheus.Registerer) *disk {
	d := &disk{
		dir:     dir,
		reserve: &reserve{path: filepath.Join(dir, "reserve"), size: reserveSize},
		gauge:   newRefusals(metrics),
		tried:   make(chan struct{}, 1),
		broken:  make(chan struct{}),
		freed:   make(chan struct{}, 1),
	}
	return d
}

// reasons are the troubles' names.
var reasons = map[troubleKind]string{full: "full", readOnly: "readonly", unavailable: "unavailable", unsynced: "unsynced"}

// seen returns an error of the database as the trouble that it is, if it is one. After one that a write has met, writes
// are refused.
func (d *disk) seen(err error, write bool) error {
	if err == nil {
		return nil
	}
	kind, ok := troubleOf(err)
	if !ok {
		return err
	}
	if free, known := d.free(); kind == unavailable && write && known && free < scarce {
		kind = full
	}
	t := &trouble{kind: kind, dir: d.dir, err: err}
	if write || kind == unsynced {
		d.refuse(t)
	}
	return t
}

// free returns how many bytes the file system has for the database.
func (d *disk) free() (bytes int64, known bool) { return freeOn(d.dir) }

func (d *disk) refuse(t *trouble) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuses != nil && (d.refuses.kind == unsynced || d.refuses.kind == t.kind) {
		return
	}
	if d.refuses == nil {
		d.remind = outage.NewReminders()
	} else {
		d.gauge.WithLabelValues(reasons[d.refuses.kind]).Set(0)
	}
	d.refuses = t
	d.gauge.WithLabelValues(reasons[t.kind]).Set(1)
	log := logrus.WithError(t.err).WithField("directory", d.dir)
	switch t.kind {
	case unsynced:
		log.Error("a sync of the database has failed; nothing more is written until the server has started again")
		close(d.broken)
		return
	case full:
		if err := d.reserve.release(); err != nil {
			log.WithField("reserve", err).Error("the disk is full and the reserve cannot be removed; writes are refused, deletions may be too")
		} else {
			log.Error("the disk is full; writes are refused until there is room, but for deletions")
		}
	default:
		log.Error("the disk takes no writes; they are refused until it does")
	}
	select {
	case d.tried <- struct{}{}:
	default:
	}
}

// repeat logs at growing intervals that writes are still refused.
func (d *disk) repeat() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuses == nil || !d.remind.Due() {
		return
	}
	logrus.WithError(d.refuses.err).WithFields(logrus.Fields{"directory": d.dir, "for": d.remind.Lasting().Round(time.Second).String()}).
		Error("the disk still takes no writes")
}

// refusal returns why writes are refused; nil if they are taken.
func (d *disk) refusal() *trouble {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refuses
}

// lost returns the reason if a sync has failed.
func (d *disk) lost() error {
	if t := d.refusal(); t != nil && t.kind == unsynced {
		return t
	}
	return nil
}

// keep holds the reserve, and tries a disk that refuses writes until it takes them, until ctx ends.
func (d *disk) keep(ctx context.Context) {
	if err := d.reserve.hold(d.reserve.size); err != nil {
		logrus.WithError(err).Warn("there is no room for the reserve; deletions may fail once the disk is full")
		if free, known := d.free(); known && free < room {
			d.seenByProbe(err)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.tried:
		}
		d.await(ctx)
	}
}

// await returns when the disk takes writes again, never after a failed sync, or when ctx ends.
func (d *disk) await(ctx context.Context) {
	for pause := probeFirst; ; pause = min(2*pause, probeMost) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		case <-d.freed:
		}
		err := d.probe()
		if err != nil {
			d.seenByProbe(err)
			d.repeat()
			continue
		}
		d.mu.Lock()
		if d.refuses == nil || d.refuses.kind == unsynced {
			d.mu.Unlock()
			return
		}
		d.gauge.WithLabelValues(reasons[d.refuses.kind]).Set(0)
		logrus.WithFields(logrus.Fields{"directory": d.dir, "after": d.remind.Lasting().Round(time.Millisecond).String()}).
			Info("the disk takes writes again")
		d.refuses = nil
		d.mu.Unlock()
		return
	}
}

// probe finds out whether the disk takes writes, and fills the reserve again.
func (d *disk) probe() error {
	if d.more != nil {
		if err := d.more(); err != nil {
			return err
		}
	}
	reserve, enough := d.regained()
	if !enough {
		return unix.ENOSPC
	}
	if err := writeAndSync(filepath.Join(d.dir, "probe")); err != nil {
		return err
	}
	return d.reserve.hold(reserve)
}

// regained reports whether there is room for writes again, and how large the reserve can be then. A database never gives room back to
// the disk. So if it has the room of a whole reserve within, that serves, and what the disk has left is for the database's log and a
// smaller reserve.
func (d *disk) regained() (reserve int64, enough bool) {
	free, known := d.free()
	switch {
	case !known || free >= room+d.reserve.missing():
		return d.reserve.size, true
	case d.inside != nil && d.inside() >= room+d.reserve.size && free >= max(usualLog, d.reserve.size/2):
		return min(d.reserve.size, max(free-usualLog, free/2)), true
	}
	return 0, false
}

// seenByProbe takes an error of the files beside the database.
func (d *disk) seenByProbe(err error) {
	kind := unavailable
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		kind = full
	case errors.Is(err, unix.EROFS):
		kind = readOnly
	}
	d.refuse(&trouble{kind: kind, dir: d.dir, err: fmt.Errorf("trying whether it takes writes: %w", err)})
}
