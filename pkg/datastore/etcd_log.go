package datastore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// etcdLog leads etcd's log into ours. What etcd calls an error is one; the rest is debug: it tells of its start, and warns
// of what a cluster would have to know.
//
// It also decides what happens when etcd gives up. etcd never goes on after a write or a sync has failed, because nobody
// can tell then what is on the disk. That ends the process with the reason, unless guard takes it.
type etcdLog struct {
	dir     string
	guarded atomic.Bool
	reasons chan error // why etcd has given up under guard
}

func newEtcdLog(dir string) *etcdLog { return &etcdLog{dir: dir, reasons: make(chan error, 1)} }

func (l *etcdLog) logger() *zap.Logger {
	return zap.New(etcdCore{of: l}, zap.WithFatalHook(l), zap.WithPanicHook(l))
}

// newMember makes a member, which reads its files.
func (l *etcdLog) newMember(ctx context.Context, c config.ServerConfig) (*etcdserver.EtcdServer, error) {
	var member *etcdserver.EtcdServer
	var err error
	if gaveUp := l.guard(ctx, func() { member, err = etcdserver.NewServer(c) }); gaveUp != nil {
		return nil, gaveUp
	}
	return member, err
}

// guard returns when etcd's code in run has ended, or the reason as soon as any goroutine of etcd gives up. It also
// returns when ctx ends: etcd waits without end for a database that another process has open. What run was doing is left
// as it is then, and the process has to end soon.
func (l *etcdLog) guard(ctx context.Context, run func()) error {
	l.guarded.Store(true)
	done := make(chan struct{})
	go func() {
		defer func() {
			if p := recover(); p != nil { // some damage to its files is too much for it
				l.gaveUp(fmt.Errorf("panic: %v", p))
			}
		}()
		run()
		l.guarded.Store(false)
		close(done)
	}()
	select {
	case <-done:
		return nil
	case reason := <-l.reasons:
		return reason
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *etcdLog) gaveUp(reason error) {
	select {
	case l.reasons <- reason:
	default: // there is one already
	}
}

// OnWrite implements zapcore.CheckWriteHook: etcd has logged that it cannot go on. It does not return.
func (l *etcdLog) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	reason := errors.New(entry.Message)
	if err, ok := encoded(fields)["error"]; ok {
		reason = fmt.Errorf("%s: %v", entry.Message, err)
	}
	if l.guarded.Load() {
		l.gaveUp(reason)
		runtime.Goexit()
	}
	logrus.WithError(reason).WithField("directory", l.dir).Fatal("etcd cannot go on; reap ends, and nothing that was acknowledged is lost")
}

// etcdCore is a zapcore.Core that writes to logrus.
type etcdCore struct {
	of   *etcdLog
	with []zapcore.Field
}

// level is debug for what OnWrite tells, also in front of it.
func (c etcdCore) level(level zapcore.Level) logrus.Level {
	if level == zapcore.ErrorLevel && !c.of.guarded.Load() {
		return logrus.ErrorLevel
	}
	return logrus.DebugLevel
}

// unripe is an error of each first start: etcd looks for its version in the database before that has been written first,
// and looks again after a few seconds.
const unripe = "failed to update storage version"

// Enabled implements zapcore.LevelEnabler. etcd's own debug messages are never logged: they contain whole requests, and so the
// contents of Secrets.
func (c etcdCore) Enabled(level zapcore.Level) bool {
	return level > zapcore.DebugLevel && logrus.IsLevelEnabled(c.level(level))
}

// With implements zapcore.Core.
func (c etcdCore) With(fields []zapcore.Field) zapcore.Core {
	return etcdCore{c.of, c.and(fields)}
}

func (c etcdCore) and(fields []zapcore.Field) []zapcore.Field {
	return append(c.with[:len(c.with):len(c.with)], fields...)
}

// Check implements zapcore.Core.
func (c etcdCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write implements zapcore.Core.
func (c etcdCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	level := c.level(entry.Level)
	if entry.Message == unripe {
		level = logrus.DebugLevel
	}
	logrus.WithFields(encoded(c.and(fields))).WithField("component", "etcd").Log(level, entry.Message)
	return nil
}

// Sync implements zapcore.Core.
func (etcdCore) Sync() error { return nil }

// encoded returns fields by their keys.
func encoded(fields []zapcore.Field) logrus.Fields {
	m := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(m)
	}
	return m.Fields
}
