//go:build releasetest

package histories

import (
	"database/sql"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/reap-dev/reap/tests/databases"
)

// commitSomeLate has PostgreSQL commit some writes of one key a while after it has given them their revisions.
const commitSomeLate = `
	CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.03); RETURN NULL; END';
	CREATE CONSTRAINT TRIGGER late AFTER INSERT ON kine DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
		WHEN (NEW.name = '` + prefix + `0' AND NEW.id % 3 = 0) EXECUTE FUNCTION late();`

// TestHistoriesOfTwoServersOnPostgreSQL: two servers write one database, and one of them is killed now and then. All is as with SQLite
// and etcd, but for one thing: what a list or the beginning of a watch finds may lack a change with an earlier revision than its own, if
// that was not committed yet, and no watch from there shows it (kine#676); tests/storage shows that step by step. Everything else that is
// missing fails the test. Some commits are made late, so that it happens often.
func TestHistoriesOfTwoServersOnPostgreSQL(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(map[bool]string{false: "AsItIs", true: "CommitsLate"}[late], func(t *testing.T) {
			_, endpoint := databases.Postgres(t)
			one := started(t, endpoint)
			one.mustServe(t) // it has made the table
			other := started(t, endpoint)
			in := world{
				servers: []func() (*clientv3.Client, error){dialing(one.endpoint()), dialing(other.endpoint())},
				sockets: []string{one.endpoint(), other.endpoint()}, trouble: other.killsNowAndThen, early: true,
			}
			if late {
				mustCommitSomeLate(t, endpoint)
			}
			testHistory(t, in)
		})
	}
}

// mustCommitSomeLate returns when some commits are late.
func mustCommitSomeLate(t *testing.T, endpoint string) {
	t.Helper()
	db, err := sql.Open("pgx", endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // all has been committed
	if _, err := db.ExecContext(t.Context(), commitSomeLate); err != nil {
		t.Fatal(err)
	}
}
