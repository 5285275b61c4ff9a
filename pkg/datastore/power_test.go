package datastore

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/reap-dev/reap/tests/powercut"
	"github.com/reap-dev/reap/tests/size"
)

// The environment of a test binary that is to write: below which directory, with which level, how often.
const (
	powerDir   = "REAP_TEST_POWER_DIR"
	powerLevel = "REAP_TEST_POWER_LEVEL"
	powerTimes = "REAP_TEST_POWER_TIMES"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(powerDir); dir != "" {
		if err := writeAsTold(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if dir := os.Getenv(etcdWriterDir); dir != "" {
		fmt.Fprintln(os.Stderr, writeToEtcd(dir))
		os.Exit(1) // it is killed before
	}
	os.Exit(m.Run())
}

// acknowledgement is a line that the writing process prints after a write was acknowledged.
type acknowledgement struct {
	Key string
	// Number counts the writes of the key.
	Number  int
	Deleted bool
	// End is how long the journal was then: what makes the write last is in front of that, if anything does.
	End int64
}

// powerOptions are those of a store with one of SQLite's levels, or of an etcd if the level is Etcd.
func powerOptions(dir, level string) Options {
	o := etcdOptions(dir)
	if level != Etcd {
		o.Endpoint, o.Synchronous = "", level
	}
	return o
}

// keysOfWriter is how many keys each writer has to itself.
const keysOfWriter, writers = 12, 4

// writeAsTold creates, changes and deletes keys, with one orderly stop in between, and ends as if killed.
func writeAsTold(dir string) error {
	times, err := strconv.Atoi(os.Getenv(powerTimes))
	if err != nil {
		return err
	}
	var printing sync.Mutex
	out := json.NewEncoder(os.Stdout)
	numbers := make([]map[string]int, writers)
	revisions := make([]map[string]int64, writers)
	for w := range writers {
		numbers[w], revisions[w] = map[string]int{}, map[string]int64{}
	}
	for part := range 2 {
		s, err := Start(context.Background(), powerOptions(dir, os.Getenv(powerLevel)))
		if err != nil {
			return err
		}
		c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints})
		if err != nil {
			return err
		}
		var writing sync.WaitGroup
		failures := make([]error, writers)
		for w := range writers {
			writing.Go(func() {
				random := rand.New(rand.NewPCG(uint64(w), uint64(part)))
				for range times / writers / 2 {
					key := fmt.Sprintf("/registry/x/%d-%02d", w, random.IntN(keysOfWriter))
					numbers[w][key]++
					a := acknowledgement{Key: key, Number: numbers[w][key]}
					revision := revisions[w][key]
					var answer *clientv3.TxnResponse
					if revision > 0 && random.IntN(4) == 0 {
						a.Deleted = true
						_, failures[w] = remove(context.Background(), c, key, revision)
						revisions[w][key] = 0
					} else {
						answer, failures[w] = put(context.Background(), c, key, fmt.Sprintf(`{"n":%d,"x":%q}`, a.Number, strings.Repeat("x", random.IntN(3000))), revision)
						if failures[w] == nil && !answer.Succeeded {
							failures[w] = fmt.Errorf("write %d of %s: somebody else has written it since revision %d: %v", a.Number, key, revision, answer)
						}
						if failures[w] == nil {
							revisions[w][key] = answer.Header.Revision
						}
					}
					if failures[w] != nil {
						return
					}
					info, err := os.Stat(os.Getenv("REAP_TEST_JOURNAL"))
					if err != nil {
						failures[w] = err
						return
					}
					a.End = info.Size()
					printing.Lock()
					failures[w] = out.Encode(a)
					printing.Unlock()
				}
			})
		}
		writing.Wait()
		if err := errors.Join(failures...); err != nil {
			return err
		}
		if part == 0 {
			if err := c.Close(); err != nil {
				return err
			}
			s.Stop()
		}
	}
	return nil
}

// recorded runs a process that writes, and returns what it did and what was acknowledged, by key in the order of its writes.
func recorded(t *testing.T, level string, times int) (ops []powercut.Op, acknowledged map[string][]acknowledgement) {
	t.Helper()
	top := t.TempDir()
	journal, data := filepath.Join(top, "journal"), filepath.Join(top, "data")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), powerDir+"="+data, powerLevel+"="+level, powerTimes+"="+strconv.Itoa(times))
	if level == Etcd {
		if err := os.MkdirAll(etcdDir(data), 0o700); err != nil {
			t.Fatal(err)
		}
		powercut.Mount(t, etcdDir(data), journal)
		cmd.Env = append(cmd.Env, "REAP_TEST_JOURNAL="+journal)
	} else {
		cmd.Env = append(cmd.Env, powercut.Recorded(t, journal)...)
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the process that writes: %v", err)
	}
	acknowledged = map[string][]acknowledgement{}
	lines := bufio.NewScanner(strings.NewReader(string(out)))
	for lines.Scan() {
		var a acknowledgement
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		if a.Number != len(acknowledged[a.Key])+1 {
			t.Fatalf("%s: write %d comes after %d others", a.Key, a.Number, len(acknowledged[a.Key]))
		}
		acknowledged[a.Key] = append(acknowledged[a.Key], a)
	}
	return powercut.Read(t, journal), acknowledged
}

// lasting returns how many of a key's writes were acknowledged when the journal had this length.
func lasting(all []acknowledgement, end int64) (n int) {
	for _, a := range all {
		if a.End <= end {
			n++
		}
	}
	return n
}

// fits reports whether a key that has the value of write n, or of none if n is 0, is as it was after write number.
func fits(all []acknowledgement, n, number int) bool {
	switch {
	case number == 0:
		return n == 0
	case number > len(all):
		return true // it was under way at the end
	case all[number-1].Deleted:
		return n == 0
	}
	return n == number
}

// TestPowerCuts cuts the power at random moments of a store that is written to. Some of the unsynced writes have reached the
// disk. The store starts by itself, is in order, and holds all acknowledged writes; with the level normal, those that were
// acknowledged before the last sync of the log.
func TestPowerCuts(t *testing.T) {
	for _, level := range []string{"full", "normal"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			seed := seedOf(t)
			random := rand.New(rand.NewPCG(seed, 0))
			ops, acknowledged := recorded(t, level, size.Of(200, 600, 800))
			cuts, tried, lost, lossy := size.Of(5, 10, 100), 0, 0, 0
			for range cuts {
				at := random.IntN(len(ops) + 1)
				if random.IntN(10) == 0 { // while the database is made
					at = random.IntN(min(len(ops), 200))
				}
				files := powercut.After(ops[:at], random)
				dir := t.TempDir()
				powercut.Write(t, filepath.Join(dir, "db"), files)
				end := int64(0)
				if at > 0 {
					end = ops[at-1].End
				}
				numbers := startAgain(t, dir, level)
				if t.Failed() {
					t.Fatalf("the power was cut after %d of %d operations", at, len(ops))
				}
				synced := powercut.SyncedUpTo(ops[:at], "state.db-wal")
				before := lost
				for key, all := range acknowledged {
					n, last := numbers[key], lasting(all, end)
					tried += last
					if fits(all, n, last) || fits(all, n, last+1) {
						continue
					}
					lost++
					if level == "full" {
						t.Errorf("after %d operations: %s is as after write %d, and %d were acknowledged", at, key, n, last)
						continue
					}
					found := false
					for number := lasting(all, synced); number < last && !found; number++ {
						found = fits(all, n, number)
					}
					if !found {
						t.Errorf("after %d operations: %s is as after write %d; %d were acknowledged before the last sync of the log", at, key, n, lasting(all, synced))
					}
				}
				if lost > before {
					lossy++
				}
			}
			size.Power(t, fmt.Sprintf("seed=%d cuts=%d acknowledged=%d keysSetBack=%d cutsThatLost=%d", seed, cuts, tried, lost, lossy))
		})
	}
}

// startAgain does what a server's start does, and returns the number of the write that each key shows.
func startAgain(t *testing.T, dir, level string) (numbers map[string]int) {
	t.Helper()
	if _, err := CheckSQLite(t.Context(), dir); err != nil {
		t.Errorf("the start refuses: %v", err)
		return nil
	}
	if log, err := readWAL(sqlitePath(dir)); err != nil || level == "full" && log.brokenOff() {
		t.Errorf("the log is taken for damaged: %+v (%v)", log, err)
	}
	if lacks, err := LogLacks(dir, level == "full", false); err != nil || lacks {
		t.Errorf("the log is taken for one that lacks writes (%v)", err)
	}
	if err := KeepBrokenLog(dir); err != nil {
		t.Error(err)
	}
	s, err := Start(t.Context(), powerOptions(dir, level))
	if err != nil {
		t.Errorf("the start fails: %v", err)
		return nil
	}
	defer func() {
		s.Stop()
		if c, err := CheckWholeSQLite(t.Context(), dir, func(int64, int64) {}); err != nil || len(c.Problems) > 0 {
			t.Errorf("a check finds %q (%v)", c.Problems, err)
		}
	}()
	return shown(t, s)
}

// shown returns the number of the write that each key of a store shows.
func shown(t *testing.T, s *Store) (numbers map[string]int) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints, Context: t.Context()})
	if err != nil {
		t.Error(err)
		return nil
	}
	defer func() { _ = c.Close() }() // nothing was written
	got, err := c.Get(t.Context(), "/registry/x/", clientv3.WithPrefix())
	if err != nil {
		t.Error(err)
		return nil
	}
	numbers = map[string]int{}
	for _, kv := range got.Kvs {
		var value struct{ N int }
		if err := json.Unmarshal(kv.Value, &value); err != nil {
			t.Errorf("%s: %v", kv.Key, err)
		}
		numbers[string(kv.Key)] = value.N
	}
	return numbers
}
