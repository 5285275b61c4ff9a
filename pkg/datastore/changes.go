package datastore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/k3s-io/kine/pkg/drivers/generic"
	"github.com/k3s-io/kine/pkg/logstructured/sqllog"
	"github.com/k3s-io/kine/pkg/server"
)

// nearby is how many revisions are read one by one for those of a range of keys.
const nearby = 1000

// changes reads the changes of a range of keys, for a watch that has to catch up. kine's statement for that reads all of them, with their
// values, and sorts them before it answers a page: three seconds for each page of 200 where 50,000 follow.
type changes struct {
	database *sql.DB
	nearby   int64
	// far finds the revisions of the range in the index, without the values. That is cheap where few of them are of the range.
	far string
}

func newChanges(database *sql.DB, index string) *changes {
	return &changes{database, nearby, changesWhere(fmt.Sprintf(`kv.id IN (SELECT same.id FROM kine AS same INDEXED BY %s
		WHERE same.name >= ? AND same.name < ? AND same.id > ? ORDER BY same.id LIMIT ?)`, index))}
}

// near reads in the order of the log, and stops after a page or after some revisions. That is cheap where many of them are of the range.
var near = changesWhere(`kv.id > ? AND kv.id <= ? AND kv.name >= ? AND kv.name < ?`) + " LIMIT ?"

// changesWhere has a row without a key if there is nothing: the current revision is always answered.
func changesWhere(condition string) string {
	return fmt.Sprintf(`SELECT now.id, (%s), %s FROM kine AS now LEFT JOIN kine AS kv NOT INDEXED ON %s
		WHERE now.id = (SELECT MAX(id) FROM kine) ORDER BY kv.id`,
		generic.CompactRevSQL, ofRow(generic.WithOldVal), condition)
}

// after returns in order the changes after a revision of the keys from key to end, limit of them at most, and the compacted revision.
func (c *changes) after(ctx context.Context, key, end string, revision, limit int64) (batch server.EventBatch, compacted int64, err error) {
	to := revision + c.nearby
	batch, compacted, err = c.query(ctx, near, revision, to, key, end, limit)
	if err != nil || int64(len(batch.Events)) == limit || batch.CurrentRev <= to {
		return batch, compacted, err
	}
	return c.query(ctx, c.far, key, end, revision, limit)
}

func (c *changes) query(ctx context.Context, statement string, args ...any) (server.EventBatch, int64, error) {
	rows, err := c.database.QueryContext(ctx, statement, args...)
	if err != nil {
		return server.EventBatch{}, 0, err
	}
	return sqllog.RowsToEvents(rows, true, true)
}
