package datastore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/k3s-io/kine/pkg/drivers/generic"
	"github.com/k3s-io/kine/pkg/drivers/sqlite"
	"github.com/k3s-io/kine/pkg/server"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// keysByRevision stands in for the store: the sorted keys of each revision from 1 on.
type keysByRevision struct {
	keys      [][]string
	compacted int64
	read      int64 // how many keys were counted
}

func (s *keysByRevision) Count(_ context.Context, key, end string, revision int64) (current, keys int64, err error) {
	current = int64(len(s.keys)) - 1
	if revision == 0 {
		revision = current
	}
	if revision < s.compacted {
		return current, 0, server.ErrCompacted
	}
	for _, k := range s.keys[revision] {
		if key == "" || key <= k && k < end {
			keys++
		}
	}
	s.read += keys
	return current, keys, nil
}

// TestCountsOfPagesAreThoseOfTheStore asks for counts of random pages of random lists, forwards and backwards, of
// more lists than are remembered, with compactions in between. Each answer must be what the store alone would say.
func TestCountsOfPagesAreThoseOfTheStore(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	key := func() string { return fmt.Sprintf("/%02d", r.IntN(40)) }
	s := &keysByRevision{keys: [][]string{nil}}
	for now := []string{}; len(s.keys) < 100; s.keys = append(s.keys, slices.Clone(now)) {
		k := key()
		if i, is := slices.BinarySearch(now, k); is {
			now = slices.Delete(now, i, i+1)
		} else {
			now = slices.Insert(now, i, k)
		}
	}
	c := newCounter(s.Count)
	for range 20_000 {
		k, end, revision := key(), "/99", int64(r.IntN(100))
		switch r.IntN(10) {
		case 0:
			end = k + "x"
		case 1:
			k = ""
		case 2:
			k += "\x00"
		}
		if r.IntN(1000) == 0 && s.compacted < 50 {
			s.compacted++
		}
		wantCurrent, want, wantErr := s.Count(t.Context(), k, end, revision)
		current, got, err := c.Count(t.Context(), k, end, revision)
		if current != wantCurrent || got != want || err != wantErr { //nolint:errorlint // the same error, not one like it
			t.Fatalf("%q to %q at %d: %d, %d, %v; the store says %d, %d, %v", k, end, revision, current, got, err, wantCurrent, want, wantErr)
		}
	}
}

// TestCountsOfPagesReadNoFurther: for all pages of a list the store counts each key about twice, once for the first page.
func TestCountsOfPagesReadNoFurther(t *testing.T) {
	var all []string
	for i := range 10_000 {
		all = append(all, fmt.Sprintf("/%05d", i))
	}
	s := &keysByRevision{keys: [][]string{nil, all}}
	c := newCounter(s.Count)
	for i := 0; i < len(all); i += 100 {
		if _, keys, err := c.Count(t.Context(), all[i], "/99999", 1); err != nil || keys != int64(len(all)-i) {
			t.Fatalf("from %s on there are %d keys, %v", all[i], keys, err)
		}
	}
	if most := int64(2 * len(all)); s.read > most {
		t.Errorf("the store counted %d keys, want at most %d", s.read, most)
	}
}

// TestStoreOfSQLiteCountsByPages: the store's counts go through a counter of its own.
func TestStoreOfSQLiteCountsByPages(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	config, d := sqliteConfig(t)
	b, _, err := newSQLite(ctx, &wg, config, d)
	if err != nil {
		t.Fatal(err)
	}
	var ends []string
	b.counts.count = func(_ context.Context, _, end string, _ int64) (int64, int64, error) {
		ends = append(ends, end)
		return 1, 1, nil
	}
	for _, from := range []string{"/a", "/b"} {
		if _, _, err := b.Count(ctx, from, "/z", 1); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"/z", "/b"}; !slices.Equal(ends, want) {
		t.Errorf("counts of two pages ended at %v, want %v", ends, want)
	}
}

// TestPagesOfAListAreCountedAtItsRevision reads a list in pages while other keys are written: each page's count is of the
// list's revision. A compaction ends the list.
func TestPagesOfAListAreCountedAtItsRevision(t *testing.T) {
	const n, limit = 1000, 90
	c := open(t)
	for i := range n {
		if _, err := create(t.Context(), c, fmt.Sprintf("/registry/counted/%04d", i)); err != nil {
			t.Fatal(err)
		}
	}
	var revision int64
	page := func(from string) (*clientv3.GetResponse, error) {
		return c.Get(t.Context(), from, clientv3.WithRange("/registry/counted0"), clientv3.WithLimit(limit), clientv3.WithRev(revision))
	}
	seen, from := 0, "/registry/counted/"
	for more := true; more; {
		p, err := page(from)
		if err != nil {
			t.Fatal(err)
		}
		if p.Count != int64(n-seen) {
			t.Fatalf("after %d keys the page says that there are %d more, want %d", seen, p.Count, n-seen)
		}
		if revision == 0 {
			revision = p.Header.Revision
		}
		seen += len(p.Kvs)
		from, more = string(p.Kvs[len(p.Kvs)-1].Key)+"\x00", p.More
		for i := range 5 { // one before the next page, others in it
			if _, err := create(t.Context(), c, fmt.Sprintf("/registry/counted/%04d-%d", seen+2-i, seen)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if seen != n {
		t.Errorf("the pages have %d keys, want %d", seen, n)
	}
	for i := range 1100 { // a compaction leaves the last thousand
		if _, err := create(t.Context(), c, fmt.Sprintf("/registry/later/%04d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Compact(t.Context(), revision+1); err != nil {
		t.Fatal(err)
	}
	if p, err := page("/registry/counted/0500"); err == nil {
		t.Errorf("a page of a compacted revision has %d keys and says %d", len(p.Kvs), p.Count)
	}
}

// TestCountsAreThoseOfKine counts ranges of random logs, from which a compaction has taken rows, with our statements and with kine's.
func TestCountsAreThoseOfKine(t *testing.T) {
	ours, _ := logOfRows(t)
	config, _ := sqliteConfig(t)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	_, kines, err := sqlite.NewVariant(ctx, &wg, sqliteDriver, config)
	if err != nil {
		t.Fatal(err)
	}
	kines.DB = ours.DB
	r := rand.New(rand.NewPCG(1, 2))
	const rows = 1000
	tx, err := ours.DB.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(insertChange, 1, compactKey, 1, 0, 0, 40, nil, nil); err != nil {
		t.Fatal(err)
	}
	last := map[string]int{}
	for id := 2; id <= rows; id++ {
		name := fmt.Sprintf("/registry/%c/%d", 'a'+r.IntN(3), r.IntN(60))
		if r.IntN(4) > 0 { // the others are compacted
			if _, err := tx.Exec(insertChange, id, name, 0, r.IntN(3)/2, last[name], last[name], nil, nil); err != nil {
				t.Fatal(err)
			}
			last[name] = id
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		key, end, revision := fmt.Sprintf("/registry/%c/", 'a'+r.IntN(4)), fmt.Sprintf("/registry/%c0", 'a'+r.IntN(4)), int64(r.IntN(rows+2))
		if r.IntN(10) == 0 {
			key = ""
		}
		now, want, err := kines.CountCurrent(ctx, key, end)
		if err != nil {
			t.Fatal(err)
		}
		if current, got, err := ours.CountCurrent(ctx, key, end); err != nil || current != now || got != want {
			t.Fatalf("%q to %q: %d, %d (%v); kine's: %d, %d", key, end, current, got, err, now, want)
		}
		now, compacted, want, err := kines.Count(ctx, key, end, revision)
		if err != nil {
			t.Fatal(err)
		}
		if current, c, got, err := ours.Count(ctx, key, end, revision); err != nil || current != now || c != compacted || got != want {
			t.Fatalf("%q to %q at %d: %d, %d, %d (%v); kine's: %d, %d, %d", key, end, revision, current, c, got, err, now, compacted, want)
		}
	}
}

// BenchmarkCount counts 60,000 keys with kine's statement and with ours. Their names are in the order of their creation, or in none.
func BenchmarkCount(b *testing.B) {
	config, _ := sqliteConfig(b)
	ctx, stop := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	_, kines, err := sqlite.NewVariant(ctx, &wg, sqliteDriver, config)
	if err != nil {
		b.Fatal(err)
	}
	for order, name := range map[string]string{"order": "i", "random": "i * 2654435761 % 4294967296"} {
		ours, _ := logOfRows(b)
		if _, err := ours.DB.ExecContext(ctx, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
			INSERT INTO kine (name, created, deleted, create_revision, prev_revision, lease, value)
			SELECT printf('/registry/configmaps/default/dependent-%010d', `+name+`), 1, 0, 0, 0, 0, randomblob(700) FROM n`); err != nil {
			b.Fatal(err)
		}
		kines.DB = ours.DB
		for who, statements := range map[string]*generic.Generic{"kine": kines, "reap": ours} {
			b.Run(order+"/"+who, func(b *testing.B) {
				for b.Loop() {
					if _, _, n, err := statements.Count(b.Context(), "/registry/configmaps/", "/registry/configmaps0", 60_000); err != nil || n != 60_000 {
						b.Fatal(n, err)
					}
				}
			})
		}
	}
}
