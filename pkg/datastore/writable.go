package datastore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/k3s-io/kine/pkg/logstructured/sqllog"
	"github.com/k3s-io/kine/pkg/server"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/reap-dev/reap/pkg/datastore/outage"
)

// newRefusals makes and registers the series about writes that a datastore refuses.
func newRefusals(metrics prometheus.Registerer) *prometheus.GaugeVec {
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "reap_datastore_refuses_writes",
		Help: "1 while the datastore takes no writes, by reason: full, readonly, unavailable, unsynced.",
	}, []string{"reason"})
	for kind := range reasons {
		gauge.WithLabelValues(reasons[kind])
	}
	metrics.MustRegister(gauge)
	return gauge
}

// writable knows whether a database elsewhere takes writes. It refuses none by itself: a write that the database does not take may be
// the fault of the write alone. After one, it writes a key of its own, and again until the database takes it.
type writable struct {
	gauge   *prometheus.GaugeVec
	doubted chan struct{} // one token: a write was not taken
	taken   chan struct{} // one token: a write was taken while they are refused

	// mu protects what follows.
	mu      sync.Mutex
	refuses *trouble          // nil while writes are taken
	remind  *outage.Reminders // since then
}

func newWritable(metrics prometheus.Registerer) *writable {
	return &writable{gauge: newRefusals(metrics), doubted: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
}

// doubt is told of a write that the database has not taken.
func (w *writable) doubt() {
	select {
	case w.doubted <- struct{}{}:
	default:
	}
}

// trust is told of a write that the database has taken.
func (w *writable) trust() {
	if w.why() == "" {
		return
	}
	select {
	case w.taken <- struct{}{}:
	default:
	}
}

// keep tries to write after each doubt, until the database takes writes again, until ctx is cancelled.
func (w *writable) keep(ctx context.Context, try func(context.Context) error) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.doubted:
		}
		for pause := probeFirst; ; pause = min(2*pause, probeMost) {
			err := try(ctx)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				w.saw(nil)
				break
			}
			if t := notTaken(err); t != nil { // else it does not answer, which the outage tells
				w.saw(t)
			}
			select {
			case <-ctx.Done():
				return
			case <-w.taken:
			case <-time.After(pause):
			}
		}
	}
}

// saw is told why the database takes no writes, or nil if it does.
func (w *writable) saw(t *trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.refuses
	w.refuses = t
	if was != nil && (t == nil || t.kind != was.kind) {
		w.gauge.WithLabelValues(reasons[was.kind]).Set(0)
	}
	switch {
	case t == nil && was != nil:
		logrus.WithField("after", w.remind.Lasting().Round(time.Millisecond).String()).Info("the datastore takes writes again")
	case t == nil:
	case was == nil:
		w.remind = outage.NewReminders()
		logrus.WithError(t.err).Error("the datastore takes no writes; requests that write fail until it does")
	case w.remind.Due():
		logrus.WithError(t.err).WithField("for", w.remind.Lasting().Round(time.Second).String()).Error("the datastore still takes no writes")
	}
	if t != nil {
		w.gauge.WithLabelValues(reasons[t.kind]).Set(1)
	}
}

// why says why the database takes no writes, without details that only the log has; "" while it does.
func (w *writable) why() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuses == nil {
		return ""
	}
	switch w.refuses.kind {
	case full:
		if errors.Is(w.refuses.err, errQuota) {
			return quotaText
		}
		return "the disk of the database is full: free space there. Reads go on meanwhile, and writes as soon as there is room"
	case readOnly:
		return "the database is read-only: let the server's user write, or name the primary if this is a replica. Reads go on meanwhile, and writes as soon as it takes them"
	}
	return "the database takes no writes: see the server's log, and its own. Reads go on meanwhile, and writes as soon as it takes them"
}

// The errors of PostgreSQL and MySQL about a full disk and about a database that is read-only.
var (
	postgresKinds = map[string]troubleKind{"53100": full, "25006": readOnly}
	mysqlKinds    = map[uint16]troubleKind{1021: full, 1114: full, 1036: readOnly, 1290: readOnly, 1792: readOnly, 1836: readOnly}
)

// notTaken returns why a database has refused a write; nil if it did not answer.
func notTaken(err error) *trouble {
	kind := unavailable
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		if k, known := postgresKinds[e.Code]; known {
			kind = k
		}
	} else if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		if k, known := mysqlKinds[e.Number]; known {
			kind = k
		}
	} else {
		return nil
	}
	return &trouble{kind: kind, err: err}
}

// rewrite writes the canary through a log of its own, which says what is wrong: kine's backend drops the error of a write.
func rewrite(ctx context.Context, log *sqllog.SQLLog) error {
	ctx, cancel := context.WithTimeout(ctx, probeMost)
	defer cancel()
	batch, err := log.List(ctx, canary, "", 1, 0, true, true)
	if err != nil {
		return err
	}
	event := &server.Event{Create: true, KV: &server.KeyValue{Key: canary, Value: []byte(time.Now().UTC().Format(time.RFC3339))}, PrevKV: &server.KeyValue{}}
	if len(batch.Events) > 0 {
		last := batch.Events[0]
		event.Create, event.PrevKV.ModRevision = last.Delete, last.KV.ModRevision
	}
	_, err = log.Append(ctx, event) // another server that is faster has written, too
	return err
}

var (
	// errQuota is why an etcd elsewhere takes no writes: it has an alarm, which stays until it is disarmed.
	errQuota = fmt.Errorf("etcd has raised the alarm NOSPACE: %w", syscall.EDQUOT)
	// quotaText says what to do then, in order.
	quotaText = "the quota of etcd is used up: nothing can be created or changed, and no collector runs, since its lease cannot be renewed. " +
		"Delete objects without finalizers, or give etcd a larger --quota-backend-bytes; then run 'etcdctl compact REVISION' up to the latest revision, " +
		"'etcdctl defrag' on each member, and last 'etcdctl alarm disarm': writes and the collector go on by themselves then. " +
		"Reads go on meanwhile (docs/datastore.md, \"An etcd elsewhere whose quota is used up\")"
)
