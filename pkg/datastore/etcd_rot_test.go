package datastore

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/reap-dev/reap/tests/size"
)

// filledEtcd returns the files of an etcd that was stopped, and those of one that was killed after some more writes: its log has what its database lacks.
func filledEtcd(t *testing.T, random *rand.Rand) (stopped map[string][]byte, w *writer, killed map[string][]byte, then past) {
	t.Helper()
	dir := t.TempDir()
	run := func(do func(s *Store)) {
		s, err := Start(t.Context(), etcdOptions(dir))
		if err != nil {
			t.Fatal(err)
		}
		c := s.Client()
		if w == nil {
			w = newWriter(c, random)
		}
		w.c = c
		do(s)
		_ = c.Close() // it has no connection
		s.Stop()
	}
	run(func(s *Store) { w.fill(t, s.engine.(*etcd).member.Backend().ForceCommit) })
	stopped = filesOf(t, dir)
	wrote := maps.Clone(w.there)
	run(func(s *Store) {
		w.wrote(s.engine.(*etcd).member.KV().Rev())
		for i := range 60 {
			w.write(t, 200)
			if i == 20 {
				s.engine.(*etcd).member.Backend().ForceCommit()
			}
		}
		killed = killedFiles(t, s, dir)
	})
	then = w.past
	w.there = wrote
	return stopped, w, killed, then
}

// killedFiles returns the files that a kill would leave of a running etcd, in a moment in which it commits nothing to its database.
func killedFiles(t *testing.T, s *Store, dir string) map[string][]byte {
	t.Helper()
	commits := s.engine.(*etcd).member.Backend().BatchTx()
	commits.LockOutsideApply()
	defer commits.Unlock()
	return filesOf(t, dir)
}

// partsOfEtcd returns where the pages of each part of a database begin.
func partsOfEtcd(t *testing.T, content []byte) map[string][]int {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	parts := map[string][]int{}
	err = db.View(func(tx *bbolt.Tx) error {
		size := db.Info().PageSize
		pages := bboltPages{file: file, pageSize: int64(size), seen: make([]bool, int(tx.Size())/size)}
		if err := pages.tree(uint64(tx.Cursor().Bucket().Root()), nil, nil); err != nil {
			return err
		}
		for id := 0; id < len(pages.seen); id++ {
			at := id * size
			switch flags := binary.NativeEndian.Uint16(content[at+8:]); {
			case id < 2:
				parts["meta"] = append(parts["meta"], at)
			case !pages.seen[id]:
				parts["free"] = append(parts["free"], at)
			default:
				part := map[bool]string{true: "branch", false: "leaf"}[flags == bboltBranch]
				parts[part] = append(parts[part], at)
				for range binary.NativeEndian.Uint32(content[at+12:]) {
					id++
					parts["overflow"] = append(parts["overflow"], id*size)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

// readEtcd returns what a GET of each key, and a LIST of all, find.
func readEtcd(t *testing.T, s *Store, keys []string) (got, listed map[string]stored, revision int64, err error) {
	t.Helper()
	c := s.Client()
	defer func() { _ = c.Close() }() // it has no connection
	got, listed = map[string]stored{}, map[string]stored{}
	for _, key := range keys {
		answer, err := c.Get(t.Context(), key)
		if err != nil {
			return nil, nil, 0, err
		}
		for _, kv := range answer.Kvs {
			got[key] = stored{kv.ModRevision, kv.Lease, string(kv.Value)}
		}
	}
	all, err := c.Get(t.Context(), "/registry/", clientv3.WithPrefix())
	if err != nil {
		return nil, nil, 0, err
	}
	for _, kv := range all.Kvs {
		listed[string(kv.Key)] = stored{kv.ModRevision, kv.Lease, string(kv.Value)}
	}
	return got, listed, all.Header.Revision, nil
}

// startRotten starts an etcd on damaged files and calls do with what reads find; false if it does not start.
func startRotten(t *testing.T, files map[string][]byte, keys []string, do func(problems []string, got, listed map[string]stored, revision int64, err error)) bool {
	t.Helper()
	o := etcdOptions(placed(t, files))
	o.VerifyFirst = true
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Log(err)
		return false
	}
	defer s.Stop()
	c, _, err := s.Verify(t.Context(), noProgress)
	if err != nil {
		c.problem("%v", err) // which holds as well
	}
	got, listed, revision, err := readEtcd(t, s, keys)
	do(c.Problems, got, listed, revision, err)
	return true
}

// TestRotOfEtcdIsFound: as TestRotOfSQLiteIsFound.
func TestRotOfEtcdIsFound(t *testing.T) {
	random := rand.New(rand.NewPCG(seedOf(t), 0))
	files, w, killed, then := filledEtcd(t, random)
	r := &rot{wrote: w.there}
	keys := then.keys()
	content := files[etcdDatabaseName]
	parts := partsOfEtcd(t, content)
	for _, part := range []string{"meta", "branch", "leaf", "overflow", "free"} {
		if len(parts[part]) == 0 {
			t.Errorf("the database has no %s pages", part)
		}
	}
	if !startRotten(t, files, keys, func(problems []string, got, listed map[string]stored, _ int64, err error) {
		if what := r.lost(got) + r.lost(listed); len(problems) > 0 || err != nil || what != "" {
			t.Errorf("without damage: %q %s (%v)", problems, what, err)
		}
	}) {
		t.Fatal("without damage it does not start")
	}
	if !startRotten(t, killed, keys, func(problems []string, _, listed map[string]stored, revision int64, err error) {
		at := &rot{wrote: then.at(revision)}
		if what := at.lost(listed); len(problems) > 0 || err != nil || what != "" || revision < slices.Max(slices.Collect(maps.Keys(then))) {
			t.Errorf("after a kill: revision %d, %q %s (%v)", revision, problems, what, err)
		}
	}) {
		t.Fatal("after a kill it does not start")
	}
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		t.Run(part, func(t *testing.T) {
			for range size.Of(1, 2, 200) {
				at := parts[part][random.IntN(len(parts[part]))]
				within := os.Getpagesize()
				if part == "meta" {
					within = bboltHead + bboltMeta
				}
				if part == "branch" || part == "leaf" {
					more := int(binary.NativeEndian.Uint32(content[at+12:]))
					all, err := bboltElements(content[at:][:(1+more)*within])
					if err != nil {
						t.Fatal(err)
					}
					within = min(within, all[len(all)-1].end)
				}
				damaged, how := strike(content, at+random.IntN(within), random)
				with := maps.Clone(files)
				with[etcdDatabaseName] = damaged
				r.tries++
				if !startRotten(t, with, keys, func(problems []string, got, listed map[string]stored, _ int64, err error) {
					r.survives(t, how, problems, got, listed, err)
				}) {
					r.refused++
				}
			}
			size.Power(t, r.power())
		})
	}
	t.Run("log", func(t *testing.T) {
		var names []string
		for name := range killed {
			if strings.HasSuffix(name, ".wal") {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		earlier := 0
		for range size.Of(2, 4, 200) {
			with := maps.Clone(killed)
			name := names[random.IntN(len(names))]
			log := killed[name]
			used := len(strings.TrimRight(string(log), "\x00"))
			how := name
			place := func() int { // in the whole of it, or in what the database lacks
				return used - random.IntN([]int{used, min(used, 30_000)}[random.IntN(2)])
			}
			switch random.IntN(4) {
			case 0:
				delete(with, name)
				how += " lost"
			case 1:
				at := place()
				with[name] = log[:at]
				how += fmt.Sprintf(" cut at %d of %d", at, used)
			case 2: // preallocated as it is, its end never reached the disk
				at := place()
				with[name] = slices.Clone(log)
				clear(with[name][at:])
				how += fmt.Sprintf(" empty from %d of %d", at, used)
			default:
				damaged, what := strike(log, place()-1, random)
				with[name] = damaged
				how += " " + what
			}
			r.tries++
			if !startRotten(t, with, keys, func(problems []string, got, listed map[string]stored, revision int64, err error) {
				what := then.lost(revision, got, listed)
				if len(problems) == 0 && (err != nil || what != "") {
					t.Errorf("%s: neither the start nor the check finds it, and it is as at no revision before: %s (%v)", how, what, err)
				}
				if len(problems) > 0 {
					r.found++
				} else {
					earlier++
				}
			}) {
				r.refused++
			}
		}
		size.Power(t, r.power()+fmt.Sprintf(" earlier=%d", earlier))
	})
}
