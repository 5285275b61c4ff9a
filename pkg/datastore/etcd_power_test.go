package datastore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/reap-dev/reap/tests/powercut"
	"github.com/reap-dev/reap/tests/size"
)

// TestPowerCutsOfEtcd is TestPowerCuts for the embedded etcd: the store starts by itself, its database is in order, and it
// holds all acknowledged writes.
func TestPowerCutsOfEtcd(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	random := rand.New(rand.NewPCG(seed, 0))
	// As many as make etcd commit its database several times and cut its log.
	ops, acknowledged := recorded(t, Etcd, size.Of(2000, 3000, 12_000))
	cuts, tried := size.Of(5, 5, 100), 0
	for range cuts {
		at := random.IntN(len(ops) + 1)
		if random.IntN(4) == 0 { // while the store is made
			at = random.IntN(min(len(ops), 100))
		}
		end := int64(0)
		if at > 0 {
			end = ops[at-1].End
		}
		dir := filepath.Join(t.TempDir(), "data")
		powercut.WriteFiles(t, etcdDir(dir), powercut.Files(ops[:at], random))
		numbers := startEtcdAgain(t, dir)
		for key, all := range acknowledged {
			n, last := numbers[key], lasting(all, end)
			tried += last
			if !fits(all, n, last) && !fits(all, n, last+1) {
				t.Errorf("%s is as after write %d, and %d were acknowledged", key, n, last)
			}
		}
		if t.Failed() {
			t.Fatalf("the power was cut after %d of %d operations", at, len(ops))
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	size.Power(t, fmt.Sprintf("seed=%d cuts=%d acknowledged=%d lost=0", seed, cuts, tried))
}

// startEtcdAgain starts an etcd, and returns the number of the write that each key shows.
func startEtcdAgain(t *testing.T, dir string) (numbers map[string]int) {
	t.Helper()
	mustBeInOrder := func() {
		t.Helper()
		if c, err := CheckWholeEtcd(t.Context(), dir, func(int64, int64) {}); err != nil || len(c.Problems) > 0 {
			t.Errorf("a check finds %q (%v)", c.Problems, err)
		}
	}
	if held, err := HoldsEtcd(dir); err != nil {
		t.Error(err)
	} else if held { // and not still being made
		mustBeInOrder()
	}
	s, err := Start(t.Context(), etcdOptions(dir))
	if err != nil {
		t.Errorf("the start fails: %v", err)
		return nil
	}
	defer func() {
		s.Stop()
		mustBeInOrder()
	}()
	return shown(t, s)
}
