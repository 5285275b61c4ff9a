package datastore

import (
	"database/sql"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/reap-dev/reap/tests/size"
)

// rottingSQLite opens a database of whose history almost nothing is kept.
func rottingSQLite(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Start(t.Context(), Options{Dir: dir, Synchronous: "normal", MinHistory: 1, Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// filledSQLite returns the database of a server that was stopped, with pages of every part.
func filledSQLite(t *testing.T, random *rand.Rand) []byte {
	t.Helper()
	dir := t.TempDir()
	s := rottingSQLite(t, dir)
	c := s.Client()
	newWriter(c, random).fill(t, func() {})
	_ = c.Close() // it has no connection
	s.Stop()      // which takes the log in
	content, err := os.ReadFile(sqlitePath(dir))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

const sqlitePage = 4096

// partsOfSQLite returns where the pages of each part of a database begin. The first page has the header, and the schema behind it.
func partsOfSQLite(t *testing.T, content []byte) map[string][]int {
	t.Helper()
	parts := map[string][]int{"header": {0}, "schema": {0}}
	at := func(page uint32) int { return int(page-1) * sqlitePage }
	number := func(offset int) uint32 { return binary.BigEndian.Uint32(content[offset:]) }
	varint := func(offset int) (value uint64, next int) {
		for i := range 8 {
			value = value<<7 | uint64(content[offset+i]&0x7f)
			if content[offset+i] < 0x80 {
				return value, offset + i + 1
			}
		}
		return value<<8 | uint64(content[offset+8]), offset + 9
	}
	var tree func(page uint32)
	tree = func(page uint32) {
		begin := at(page)
		kind, cells := content[begin], int(binary.BigEndian.Uint16(content[begin+3:]))
		table := kind == 0x05 || kind == 0x0d
		inner := kind == 0x02 || kind == 0x05
		name, heads := map[bool]string{true: "table ", false: "index "}[table]+map[bool]string{true: "inner", false: "leaf"}[inner], 8
		parts[name] = append(parts[name], begin)
		if inner {
			heads = 12
			tree(number(begin + 8))
		}
		for i := range cells {
			cell := begin + int(binary.BigEndian.Uint16(content[begin+heads+2*i:]))
			if inner {
				tree(number(cell))
				continue
			}
			payload, next := varint(cell)
			if !table {
				continue // names are short
			}
			_, next = varint(next)
			const most = sqlitePage - 35
			if payload <= most {
				continue
			}
			const least = (sqlitePage-12)*32/255 - 23
			local := least + (int(payload)-least)%(sqlitePage-4)
			if local > most {
				local = least
			}
			for more := number(next + local); more != 0; more = number(at(more)) {
				parts["overflow"] = append(parts["overflow"], at(more))
			}
		}
	}
	for trunk := number(32); trunk != 0; trunk = number(at(trunk)) {
		parts["freelist trunk"] = append(parts["freelist trunk"], at(trunk))
		for i := range int(number(at(trunk) + 4)) {
			parts["freelist leaf"] = append(parts["freelist leaf"], at(number(at(trunk)+8+4*i)))
		}
	}
	err := readSQLite(t.Context(), sqlitePath(left(t, map[string][]byte{"state.db": content})), func(db *sql.DB) error {
		rows, err := db.QueryContext(t.Context(), "SELECT rootpage FROM sqlite_master WHERE rootpage > 0")
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var root uint32
			if err := rows.Scan(&root); err != nil {
				return err
			}
			tree(root)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

// usedBySQLite reports whether a byte is not in the gap in the middle of a tree's page.
func usedBySQLite(content []byte, at int) bool {
	page, begin := at&^(sqlitePage-1), at&^(sqlitePage-1)
	if page == 0 {
		begin = 100
	}
	heads := map[byte]int{0x02: 12, 0x05: 12, 0x0a: 8, 0x0d: 8}[content[begin]]
	if heads == 0 {
		return true
	}
	cells, data := int(binary.BigEndian.Uint16(content[begin+3:])), int(binary.BigEndian.Uint16(content[begin+5:]))
	return at < begin+heads+2*cells || at >= page+data
}

// readKeys returns what a GET of each key, and a LIST of all, find in an SQLite database.
func readKeys(t *testing.T, dir string, keys []string) (got, listed map[string]stored, err error) {
	t.Helper()
	got, listed = map[string]stored{}, map[string]stored{}
	err = readSQLite(t.Context(), sqlitePath(dir), func(db *sql.DB) error {
		get, err := db.PrepareContext(t.Context(), "SELECT id, deleted, lease, value FROM kine WHERE id = (SELECT MAX(same.id) FROM kine AS same INDEXED BY "+ourIndex+" WHERE same.name = ?)")
		if err != nil {
			return err
		}
		defer func() { _ = get.Close() }()
		for _, key := range keys {
			var id, deleted, lease sql.NullInt64
			var value []byte
			err := get.QueryRowContext(t.Context(), key).Scan(&id, &deleted, &lease, &value)
			if err != nil && err != sql.ErrNoRows {
				return err
			}
			if id.Valid && deleted.Int64 == 0 {
				got[key] = stored{id.Int64, lease.Int64, string(value)}
			}
		}
		rows, err := db.QueryContext(t.Context(), `SELECT kv.name, kv.id, kv.lease, kv.value FROM kine AS kv INDEXED BY `+ourIndex+` WHERE kv.name >= '/registry/' AND kv.name < '/registry0'
			AND kv.id = (SELECT MAX(same.id) FROM kine AS same WHERE same.name = kv.name) AND kv.deleted = 0 ORDER BY kv.name`)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var name, value string
			var id, lease int64
			if err := rows.Scan(&name, &id, &lease, &value); err != nil {
				return err
			}
			listed[name] = stored{id, lease, value}
		}
		return rows.Err()
	})
	return got, listed, err
}

// rottingDatabase is one of which copies are damaged.
type rottingDatabase struct {
	rot
	before []row
	newest int64
	keys   []string
}

func newRottingDatabase(t *testing.T, content []byte) *rottingDatabase {
	t.Helper()
	dir := left(t, map[string][]byte{"state.db": content})
	r := &rottingDatabase{before: rowsIn(t, dir)}
	for _, row := range r.before {
		r.newest = max(r.newest, row.id)
		if !slices.Contains(r.keys, row.name) && strings.HasPrefix(row.name, "/registry/") {
			r.keys = append(r.keys, row.name)
		}
	}
	got, _, err := readKeys(t, dir, r.keys)
	if err != nil {
		t.Fatal(err)
	}
	r.wrote = got
	return r
}

// try judges one damaged copy. If only an index is damaged, a compaction must repair what the check has found.
func (r *rottingDatabase) try(t *testing.T, content []byte, how string, index bool) {
	t.Helper()
	dir := left(t, map[string][]byte{"state.db": content})
	r.tries++
	if empty, err := CheckSQLite(t.Context(), dir); err != nil || empty {
		r.refused++ // a server refuses a database that is empty where there was one
		return
	}
	if now, err := SQLiteRevision(t.Context(), dir); err != nil || now < r.newest {
		r.behind++ // the server's mark tells, which was written when it stopped
		return
	}
	c, err := verifySQLite(t.Context(), dir, noProgress)
	if err != nil {
		c.problem("%v", err) // which holds as well
	}
	got, listed, err := readKeys(t, dir, r.keys)
	r.survives(t, how, c.Problems, got, listed, err)
	if len(c.Problems) == 0 {
		r.writeOn(t, dir, how)
		return
	}
	if !index {
		return
	}
	if _, err := CompactSQLite(t.Context(), dir, noProgress); err != nil {
		t.Errorf("%s: %v", how, err)
		return
	}
	if after := rowsIn(t, dir); !slices.Equal(after, r.before) {
		t.Errorf("%s: a compaction changed rows", how)
	}
	if c, err := verifySQLite(t.Context(), dir, noProgress); err != nil || len(c.Problems) > 0 {
		t.Errorf("%s: after a compaction the check says %q (%v)", how, c.Problems, err)
	}
}

// writeOn adds rows to a database that was found whole: they take free pages, and must not take any other.
func (r *rottingDatabase) writeOn(t *testing.T, dir, how string) {
	t.Helper()
	db := database(t, dir, "normal")
	_, err := db.ExecContext(t.Context(), `INSERT INTO kine (name, created, deleted, create_revision, prev_revision, lease, value)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) SELECT '/reap/more/' || i, 1, 0, 0, 0, 0, zeroblob(10000) FROM n`)
	if closed := db.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return // users see it
	}
	got, listed, err := readKeys(t, dir, r.keys)
	lost := r.lost(got)
	if lost == "" {
		lost = r.lost(listed)
	}
	if err != nil || lost != "" {
		t.Errorf("%s: neither the start nor the check finds it, and after more writes: %s (%v)", how, lost, err)
	}
}

// TestRotOfSQLiteIsFound: a bit or a byte that hides a key from a GET or a LIST is found by the start or by the check, wherever it is; and a
// compaction makes a broken index anew without loss.
func TestRotOfSQLiteIsFound(t *testing.T) {
	random := rand.New(rand.NewPCG(seedOf(t), 0))
	content := filledSQLite(t, random)
	parts := partsOfSQLite(t, content)
	for _, part := range []string{"header", "schema", "table inner", "table leaf", "index inner", "index leaf", "overflow", "freelist trunk", "freelist leaf"} {
		if len(parts[part]) == 0 {
			t.Errorf("the database has no %s", part)
		}
	}
	r := newRottingDatabase(t, content)
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		t.Run(part, func(t *testing.T) {
			pages := parts[part]
			from, to := 0, sqlitePage
			switch part {
			case "header":
				to = 100
			case "schema":
				from = 100
			case "freelist trunk":
				to = 8 + 4*int(binary.BigEndian.Uint32(content[pages[0]+4:])) // what is behind that is not read
			}
			for range size.Of(8, 12, 200) {
				at := pages[random.IntN(len(pages))] + from + random.IntN(to-from)
				for !usedBySQLite(content, at) {
					at = pages[random.IntN(len(pages))] + from + random.IntN(to-from)
				}
				damaged, how := strike(content, at, random)
				r.try(t, damaged, how, part == "index leaf")
			}
			size.Power(t, r.power())
		})
	}
}

// TestPageThatIsFreeAndInUseIsFound: nothing is lost yet, and the next write to it loses whole rows. A start that had no time for all pages leaves
// that to the check after it.
func TestPageThatIsFreeAndInUseIsFound(t *testing.T) {
	content := filledSQLite(t, rand.New(rand.NewPCG(1, 0)))
	parts := partsOfSQLite(t, content)
	trunk := parts["freelist trunk"][0]
	binary.BigEndian.PutUint32(content[trunk+8:], uint32(parts["table leaf"][0]/sqlitePage+1))
	dir := left(t, map[string][]byte{"state.db": content})
	if _, _, err := CheckSQLiteWithin(t.Context(), dir, time.Minute); err == nil {
		t.Error("a start with time for all pages finds nothing")
	}
	if _, pages, err := CheckSQLiteWithin(t.Context(), dir, time.Nanosecond); err != nil || pages {
		t.Errorf("a start without time has seen all pages: %v (%v)", pages, err)
	}
	for _, check := range []bool{false, true} {
		dir := left(t, map[string][]byte{"state.db": content})
		s, err := Start(t.Context(), Options{Dir: dir, Synchronous: "normal", VerifyFirst: true, CheckPages: check, Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		c, _, err := s.Verify(t.Context(), noProgress)
		s.Stop()
		if err != nil || (len(c.Problems) > 0) != check {
			t.Errorf("checked with the pages (%v) it finds %q (%v)", check, c.Problems, err)
		}
	}
}
