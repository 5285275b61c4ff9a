package datastore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Stats says what the database of a data directory holds. Its fields are stable.
type Stats struct {
	Path  string     `json:"path"`
	Files []FileSize `json:"files"`
	// PageSize is in bytes, and Pages includes the free ones, which new rows use first.
	PageSize  int64 `json:"pageSize"`
	Pages     int64 `json:"pages"`
	FreePages int64 `json:"freePages"`
	// Revision is the newest one, and Compacted that up to which history is gone.
	Revision  int64 `json:"revision"`
	Compacted int64 `json:"compactedRevision"`
	// Keys and Bytes are of the newest revision of all keys, History of older revisions and of deletions.
	Keys         int64 `json:"keys"`
	Bytes        int64 `json:"bytes"`
	History      int64 `json:"historyRows"`
	HistoryBytes int64 `json:"historyBytes"`
	// Resources are sorted by their bytes, the largest first.
	Resources []ResourceStats `json:"resources"`
	// Largest are the largest keys, the largest first.
	Largest []KeySize `json:"largest"`
}

// FileSize is a file and its size.
type FileSize struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// ResourceStats counts the keys of a resource.
type ResourceStats struct {
	Resource string `json:"resource"`
	Keys     int64  `json:"keys"`
	// Bytes are those of the values, HistoryBytes those of older revisions and of deletions, which the next compactions
	// of the server remove.
	Bytes        int64 `json:"bytes"`
	HistoryBytes int64 `json:"historyBytes"`
}

// KeySize is a key and the size of its value.
type KeySize struct {
	Key   string `json:"key"`
	Bytes int64  `json:"bytes"`
}

// largestKeys is how many of the largest keys Stats names.
const largestKeys = 10

// StatsSQLite reads the whole table and counts. Progress is called with the rows read and those that there are.
func StatsSQLite(ctx context.Context, dir string, progress func(done, all int64)) (s Stats, err error) {
	s.Path = sqlitePath(dir)
	err = inspect(ctx, dir, func(tx *sql.Tx) error {
		if err := tableExists(ctx, tx, s.Path); err != nil {
			return err
		}
		for pragma, to := range map[string]*int64{"page_size": &s.PageSize, "page_count": &s.Pages, "freelist_count": &s.FreePages} {
			if err := tx.QueryRowContext(ctx, "PRAGMA "+pragma).Scan(to); err != nil {
				return err
			}
		}
		if s.Revision, s.Compacted, err = revisions(ctx, tx); err != nil {
			return err
		}
		return s.count(ctx, tx, progress)
	})
	if err != nil && !errors.Is(err, errNoDatabase) {
		return s, fmt.Errorf("reading the database %s: %w; 'reap db check' says whether it is damaged", s.Path, err)
	}
	if err != nil {
		return s, err
	}
	s.Files, err = sizes(s.Path)
	return s, err
}

// sizes returns the files of a database that exist.
func sizes(path string) (all []FileSize, err error) {
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, FileSize{Name: name, Bytes: info.Size()})
	}
	return all, nil
}

// count goes through all rows, those of a key one after the other.
func (s *Stats) count(ctx context.Context, tx *sql.Tx, progress func(done, all int64)) (err error) {
	var all int64
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM kine").Scan(&all); err != nil {
		return err
	}
	// SQLite knows the length of a blob without reading it.
	rows, err := tx.QueryContext(ctx, "SELECT name, deleted, ifnull(length(value), 0), ifnull(length(old_value), 0) FROM kine ORDER BY name, id")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	t := newTally(s)
	var last struct {
		name         string
		deleted      bool
		bytes, older int64
	}
	// The newest row of a key is what the key is now; every one before it is history.
	take := func(newest bool) {
		if last.name == "" || bookkeeping(last.name) {
			return
		}
		r := t.resource(last.name)
		r.HistoryBytes += last.older
		if !newest || last.deleted {
			s.History++
			r.HistoryBytes += last.bytes
			return
		}
		t.key(last.name, last.bytes)
	}
	for done := int64(0); rows.Next(); {
		before := last.name
		row := last
		if err := rows.Scan(&row.name, &row.deleted, &row.bytes, &row.older); err != nil {
			return err
		}
		take(row.name != before)
		last = row
		done++
		progress(done, all)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	take(true)
	t.sum()
	return nil
}

// tally counts the keys of each resource.
type tally struct {
	stats     *Stats
	resources map[string]*ResourceStats
}

func newTally(s *Stats) *tally { return &tally{stats: s, resources: map[string]*ResourceStats{}} }

// resource returns the counts of the resource whose key it is.
func (t *tally) resource(key string) *ResourceStats {
	name := resourceOf(key)
	r := t.resources[name]
	if r == nil {
		r = &ResourceStats{Resource: name}
		t.resources[name] = r
	}
	return r
}

// key counts a key and the bytes of its value.
func (t *tally) key(key string, bytes int64) {
	t.stats.Keys++
	r := t.resource(key)
	r.Keys++
	r.Bytes += bytes
	t.stats.largest(KeySize{Key: key, Bytes: bytes})
}

// sum adds the resources up, once all keys are counted.
func (t *tally) sum() {
	s := t.stats
	s.Resources = []ResourceStats{}
	for _, r := range t.resources {
		s.Bytes += r.Bytes
		s.HistoryBytes += r.HistoryBytes
		s.Resources = append(s.Resources, *r)
	}
	slices.SortFunc(s.Resources, func(x, y ResourceStats) int {
		return cmp.Or(cmp.Compare(y.Bytes+y.HistoryBytes, x.Bytes+x.HistoryBytes), strings.Compare(x.Resource, y.Resource))
	})
}

// largest keeps the largest keys.
func (s *Stats) largest(k KeySize) {
	at, _ := slices.BinarySearchFunc(s.Largest, k, func(x, y KeySize) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), strings.Compare(x.Key, y.Key))
	})
	if at == largestKeys {
		return
	}
	s.Largest = slices.Insert(s.Largest, at, k)
	s.Largest = s.Largest[:min(len(s.Largest), largestKeys)]
}

// renamed are the resources that the API server keeps below a name of its own.
var renamed = map[string]string{
	"minions": "nodes", "controllers": "replicationcontrollers", "services/specs": "services", "services/endpoints": "endpoints",
}

// resourceOf returns the resource whose key it is, as kubectl writes it. The API server leaves out the groups of
// resources that it defines itself.
func resourceOf(key string) string {
	path, found := strings.CutPrefix(key, "/registry/")
	if !found {
		return "other"
	}
	words := strings.SplitN(path, "/", 3)
	if len(words) > 2 {
		if name := renamed[words[0]+"/"+words[1]]; name != "" {
			return name
		}
	}
	if len(words) > 1 && strings.Contains(words[0], ".") { // a group
		return words[1] + "." + words[0]
	}
	return cmp.Or(renamed[words[0]], words[0])
}
