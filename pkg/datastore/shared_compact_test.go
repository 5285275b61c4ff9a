package datastore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	kinemetrics "github.com/k3s-io/kine/pkg/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/reap-dev/reap/tests/databases"
)

// failIfKineExits fails the test if kine ends the process, which goes on nevertheless.
func failIfKineExits(t *testing.T) {
	t.Helper()
	logger := logrus.StandardLogger()
	exit := logger.ExitFunc
	logger.ExitFunc = func(int) { t.Error("kine has ended the process") }
	t.Cleanup(func() { logger.ExitFunc = exit })
}

// breakable is how a test breaks a compaction off in a database.
type breakable struct {
	start  func(*testing.T) (*databases.Server, string)
	driver string
	// prepare is run before; empty for nothing.
	prepare string
	// hold is run in a transaction, which the compaction then waits for. %d is a revision that it deletes.
	hold string
	// compacting returns the connection of the compaction once it is at the statement that has to wait.
	compacting string
	// kill closes the connection %d.
	kill string
}

// TestCompactionMayLoseItsConnection: the process goes on, the log tells of it once, and the next compaction does the work. Writes stay, and
// old revisions can be read until then.
func TestCompactionMayLoseItsConnection(t *testing.T) {
	if testing.Short() {
		t.Skip("needs PostgreSQL and MariaDB")
	}
	postgres := breakable{
		start: databases.Postgres, driver: "pgx",
		hold:       "SELECT id FROM kine WHERE id = %d FOR UPDATE",
		compacting: "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
		kill:       "SELECT pg_terminate_backend(%d)",
	}
	committing := postgres
	committing.prepare = `
		CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(OLD.id); RETURN NULL; END';
		CREATE CONSTRAINT TRIGGER late AFTER DELETE ON kine DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()`
	committing.hold = "SELECT pg_advisory_xact_lock(%d)"
	mariaDB := breakable{
		start: databases.MariaDB, driver: "mysql",
		hold:       "SELECT id FROM kine WHERE id = %d FOR UPDATE",
		compacting: "SELECT id FROM information_schema.processlist WHERE info LIKE 'DELETE kv %'",
		kill:       "KILL %d",
	}
	for name, d := range map[string]breakable{"PostgreSQL": postgres, "PostgreSQLCommits": committing, "MariaDB": mariaDB} {
		t.Run(name, func(t *testing.T) { testCompactionMayLoseItsConnection(t, d) })
	}
}

func testCompactionMayLoseItsConnection(t *testing.T, d breakable) {
	failIfKineExits(t)
	hook := logrustest.NewGlobal()
	defer logrus.StandardLogger().ReplaceHooks(logrus.LevelHooks{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	_, endpoint := d.start(t)
	s, err := Start(ctx, Options{Dir: t.TempDir(), Endpoint: endpoint, MinHistory: 1, Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints, Context: ctx})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // the store is here
	const key = "/registry/key"
	var revisions []int64
	write := func() {
		t.Helper()
		was := append([]int64{0}, revisions...)[len(revisions)] // 0 before the first
		answer, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", was)).
			Then(clientv3.OpPut(key, fmt.Sprint(was))).Else(clientv3.OpGet(key)).Commit()
		if err != nil || !answer.Succeeded {
			t.Fatal(answer, err)
		}
		revisions = append(revisions, answer.Header.Revision)
	}
	for range 5 {
		write()
	}

	db, err := sql.Open(d.driver, strings.TrimPrefix(endpoint, "mysql://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // its last statement has been answered
	if d.prepare != "" {
		if _, err := db.ExecContext(ctx, d.prepare); err != nil {
			t.Fatal(err)
		}
	}
	holder, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.ExecContext(ctx, fmt.Sprintf(d.hold, revisions[1])); err != nil {
		t.Fatal(err)
	}
	hook.Reset()
	failedBefore := compactions(t, kinemetrics.ResultError)
	answered := make(chan error, 1)
	go func() {
		_, err := c.Compact(ctx, revisions[3])
		answered <- err
	}()
	var connection int64
	err = wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := db.QueryRowContext(ctx, d.compacting).Scan(&connection)
		if errors.Is(err, sql.ErrNoRows) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		t.Fatalf("the compaction does not wait: %v", err)
	}
	if _, err := db.ExecContext(ctx, fmt.Sprintf(d.kill, connection)); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Errorf("the compaction is answered with %v", err)
	}
	if failed := compactions(t, kinemetrics.ResultError) - failedBefore; failed != 1 {
		t.Errorf("%v compactions have failed, want 1", failed)
	}
	var told []string
	for _, e := range hook.AllEntries() {
		if e.Level <= logrus.ErrorLevel {
			told = append(told, e.Message)
		}
	}
	if len(told) != 1 || !strings.HasPrefix(told[0], "Compact failed: ") {
		t.Errorf("the log tells of it with %q", told)
	}
	if answer, err := c.Get(ctx, key, clientv3.WithRev(revisions[1])); err != nil || len(answer.Kvs) != 1 || answer.Kvs[0].ModRevision != revisions[1] {
		t.Errorf("an old revision is read as %v, %v", answer, err)
	}

	if err := holder.Rollback(); err != nil {
		t.Fatal(err)
	}
	write()
	if _, err := c.Compact(ctx, revisions[4]); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(ctx, key, clientv3.WithRev(revisions[3])); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Errorf("a compacted revision is read: %v", err)
	}
	for _, at := range revisions[4:] {
		answer, err := c.Get(ctx, key, clientv3.WithRev(at))
		if err != nil || len(answer.Kvs) != 1 || answer.Kvs[0].ModRevision != at {
			t.Errorf("revision %d is read as %v, %v", at, answer, err)
		}
	}
	if rows := number(t, db, "SELECT count(*) FROM kine WHERE name = '"+key+"'"); rows != 2 {
		t.Errorf("%d revisions of the key are left, want 2", rows)
	}
}
