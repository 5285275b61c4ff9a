package datastore

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/reap-dev/reap/pkg/datastore/outage"
	"github.com/reap-dev/reap/tests/databases"
)

// refuser is how a test has a database refuse writes.
type refuser struct {
	start func(*testing.T) (*databases.Server, string)
	// admin is the driver and the endpoint of an administrator, made from that of start; user is that of reap, and stranger that of a user
	// whom the database does not let in.
	driver                string
	admin, user, stranger func(endpoint string) string
	prepare               []string
	readOnly, readWrite   []string
}

func (r refuser) do(t *testing.T, endpoint string, statements []string) {
	t.Helper()
	db, err := sql.Open(r.driver, r.admin(endpoint))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // each statement has been answered
	db.SetMaxOpenConns(1)
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// TestDatabaseElsewhereThatRefuses its user, then writes, then everything: the start ends at once, each write gets 503, also a creation, and
// the store says why; and no client learns where the database is.
func TestDatabaseElsewhereThatRefuses(t *testing.T) {
	if testing.Short() {
		t.Skip("needs PostgreSQL and MariaDB")
	}
	level := logrus.GetLevel()
	logrus.SetLevel(logrus.FatalLevel) // it would tell of each step
	t.Cleanup(func() { logrus.SetLevel(level) })
	same := func(endpoint string) string { return endpoint }
	replace := func(what, by string) func(string) string {
		return func(endpoint string) string { return strings.Replace(endpoint, what, by, 1) }
	}
	plain := func(endpoint string) string { // as a URL has it
		return strings.NewReplacer("root@", "reap:p@s/s@", "tcp(", "", ")", "").Replace(endpoint)
	}
	for name, r := range map[string]refuser{
		"PostgreSQL": {
			start: databases.Postgres, driver: "pgx", admin: replace("/reap?", "/postgres?"), user: same, stranger: replace("reap@", "stranger:hunter2@"),
			readOnly:  []string{"ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"},
			readWrite: []string{"ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"},
		},
		"MariaDB": {
			start: databases.MariaDB, driver: "mysql",
			admin: func(endpoint string) string {
				return strings.TrimSuffix(strings.TrimPrefix(endpoint, "mysql://"), "reap")
			},
			user:     plain,
			stranger: func(endpoint string) string { return strings.Replace(plain(endpoint), "p@s/s", "hunter2", 1) },
			prepare: []string{ // root may write to a database that is read-only
				"CREATE USER reap@localhost IDENTIFIED BY 'p@s/s'", "CREATE USER reap@127.0.0.1 IDENTIFIED BY 'p@s/s'",
				"GRANT ALL ON reap.* TO reap@localhost", "GRANT ALL ON reap.* TO reap@127.0.0.1",
			},
			readOnly: []string{"SET GLOBAL read_only = 1"}, readWrite: []string{"SET GLOBAL read_only = 0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testDatabaseThatRefuses(t, r)
		})
	}
}

func testDatabaseThatRefuses(t *testing.T, r refuser) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, endpoint := r.start(t)
	r.do(t, endpoint, r.prepare)
	options := Options{Dir: t.TempDir(), Metrics: prometheus.NewRegistry(), Outage: outage.New(), StartTimeout: time.Minute}
	options.Endpoint = r.stranger(endpoint)
	if _, err := Start(ctx, options); err == nil || !refusesUs(err) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a start with a wrong password: %v", err)
	}
	options.Endpoint = r.user(endpoint)
	s, err := Start(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints, Context: ctx})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // the store is here
	create := func(key string) error {
		answer, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, "value")).Commit()
		if err == nil && !answer.Succeeded {
			err = errors.New("the key is there")
		}
		return err
	}
	isReadOnly := func() float64 { return testutil.ToFloat64(s.writable.gauge.WithLabelValues("readonly")) }
	is := func(what string, want bool) {
		t.Helper()
		err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
			return strings.Contains(s.Trouble(), "read-only") == want && (isReadOnly() == 1) == want, nil
		})
		if err != nil {
			t.Fatalf("%s: the store says %q, the series %v", what, s.Trouble(), isReadOnly())
		}
	}
	if err := create("/first"); err != nil {
		t.Fatal(err)
	}

	r.do(t, endpoint, r.readOnly)
	err = wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) { return create("/second") != nil, nil })
	if err != nil {
		t.Fatal("the database still takes writes")
	}
	is("read-only", true)
	if code, text := s.Explain(status.Convert(create("/second")).Message()); code != http.StatusServiceUnavailable || !strings.Contains(text, "read-only") {
		t.Errorf("a creation is answered with %d, %s", code, text)
	}
	if got, err := c.Get(ctx, "/first"); err != nil || len(got.Kvs) != 1 {
		t.Errorf("a read: %v, %v", got, err)
	}
	r.do(t, endpoint, r.readWrite)
	is("writable again", false)

	server.Stop()
	for what, err := range map[string]error{"creation": create("/third"), "read": func() error { _, err := c.Get(ctx, "/first"); return err }()} {
		code, text := s.Explain(status.Convert(err).Message())
		if code != http.StatusServiceUnavailable || text != awayText {
			t.Errorf("a %s without the database is answered with %d, %q (%v)", what, code, text, err)
		}
	}
	_, err = c.Get(ctx, "/first")
	if hidden := s.engine.(*kine).hidden.instead(err); hidden == nil || strings.Contains(hidden.Error(), awayText) {
		t.Errorf("the log gets %v", hidden)
	}
}

// TestStartWaitsForADatabaseElsewhere as long as it may, and asks the service manager for the time.
func TestStartWaitsForADatabaseElsewhere(t *testing.T) {
	level := logrus.GetLevel()
	logrus.SetLevel(logrus.FatalLevel) // it would tell of it
	t.Cleanup(func() { logrus.SetLevel(level) })
	for _, endpoint := range []string{"postgres://user:hunter2@127.0.0.1:1/x", "mysql://user:hunter2@127.0.0.1:1/x"} {
		waits := 0
		_, err := Start(t.Context(), Options{
			Dir: t.TempDir(), Endpoint: endpoint, Metrics: prometheus.NewRegistry(),
			Outage: outage.New(), Away: 200 * time.Millisecond, Waiting: func() { waits++ }, StartTimeout: time.Minute,
		})
		if err == nil || !strings.Contains(err.Error(), "has not answered for 200ms (--datastore-timeout)") || strings.Contains(err.Error(), "hunter2") || waits == 0 {
			t.Errorf("%s: %v after %d waits", endpoint, err, waits)
		}
	}
}

// TestReasonsOfADatabaseElsewhere: the errors of PostgreSQL and MySQL, also where something is wrapped around them.
func TestReasonsOfADatabaseElsewhere(t *testing.T) {
	for _, c := range []struct {
		err     error
		refuses bool
		kind    troubleKind // -1: it did not answer
	}{
		{&pgconn.PgError{Code: "28P01"}, true, unavailable},
		{&pgconn.PgError{Code: "28000"}, true, unavailable},
		{&pgconn.PgError{Code: "57P03"}, false, unavailable}, // it starts
		{&pgconn.PgError{Code: "53100"}, false, full},
		{&pgconn.PgError{Code: "25006"}, false, readOnly},
		{&mysql.MySQLError{Number: 1045}, true, unavailable},
		{&mysql.MySQLError{Number: 1040}, false, unavailable}, // too many connections
		{&mysql.MySQLError{Number: 1114}, false, full},
		{&mysql.MySQLError{Number: 1290}, false, readOnly},
		{errors.New("connection refused"), false, -1},
	} {
		err := errors.Join(errors.New("dialing"), c.err)
		if got := refusesUs(withoutPassword(err, "postgres://user:hunter2@db/x")); got != c.refuses {
			t.Errorf("%v: it refuses us: %v", c.err, got)
		}
		if got := notTaken(err); (got == nil) != (c.kind < 0) || got != nil && got.kind != c.kind {
			t.Errorf("%v: a write is refused with %v", c.err, got)
		}
	}
}
