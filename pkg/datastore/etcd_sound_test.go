package datastore

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/reap-dev/reap/tests/size"
)

// lives does what clients of an etcd may do. Only those of others write several keys in one transaction.
func lives(t *testing.T, c *clientv3.Client, random *rand.Rand, others bool) {
	t.Helper()
	var leases []clientv3.LeaseID
	latest := int64(1)
	key := func() string { return fmt.Sprintf("/registry/configmaps/default/%02d", random.IntN(40)) }
	for range 100 {
		var then []clientv3.Op
		for _, i := range random.Perm(40)[:1+random.IntN(4)] { // a transaction takes each key once
			k := fmt.Sprintf("/registry/configmaps/default/%02d", i)
			then = append(then, clientv3.OpPut(k, owned(t, k, 100, random)))
		}
		var err error
		var answer *clientv3.TxnResponse
		switch random.IntN(12) {
		case 0: // several writes, and deletions, of one revision
			if !others {
				break
			}
			other := fmt.Sprintf("/registry/secrets/default/%d", random.IntN(3))
			answer, err = c.Txn(t.Context()).Then(append(then, clientv3.OpDelete(other))...).Commit()
		case 1: // no revision
			answer, err = c.Txn(t.Context()).Then(clientv3.OpGet(key())).Commit()
		case 2:
			answer, err = c.Txn(t.Context()).Then(clientv3.OpDelete("/registry/none")).Commit()
		case 3:
			_, err = c.Delete(t.Context(), "/registry/configmaps/default/1", clientv3.WithPrefix())
		case 4, 5:
			var lease *clientv3.LeaseGrantResponse
			if lease, err = c.Grant(t.Context(), 3600); err == nil {
				leases = append(leases, lease.ID)
				for i := range random.IntN(3) {
					event := fmt.Sprintf("/registry/events/default/%d-%d", len(leases), i)
					answer, err = c.Txn(t.Context()).Then(clientv3.OpPut(event, owned(t, event, 100, random), clientv3.WithLease(lease.ID))).Commit()
				}
			}
		case 6: // as when it ends
			if n := len(leases); n > 0 {
				_, err = c.Revoke(t.Context(), leases[n-1])
				leases = leases[:n-1]
			}
		case 7:
			if random.IntN(4) == 0 && latest > 1 {
				var how []clientv3.CompactOption
				if random.IntN(2) == 0 {
					how = append(how, clientv3.WithCompactPhysical())
				}
				_, err = c.Compact(t.Context(), latest-random.Int64N(min(latest, 10)), how...)
				if errors.Is(err, rpctypes.ErrCompacted) {
					err = nil
				}
			}
		case 8:
			_, err = c.Delete(t.Context(), key())
		default:
			answer, err = c.Txn(t.Context()).Then(then[0]).Commit()
		}
		if err != nil {
			t.Fatal(err)
		}
		if answer != nil {
			latest = answer.Header.Revision
		}
	}
}

// restoredByEtcdutl returns a data directory with the store of another one, as etcd's own tool restores it: at its revision, or further on.
func restoredByEtcdutl(t *testing.T, dir string, random *rand.Rand) string {
	t.Helper()
	from, err := Open(t.Context(), dir, false)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	var out bytes.Buffer
	if _, err := WriteEtcdSnapshot(t.Context(), &out, from, t.TempDir(), noProgress); err != nil {
		t.Fatal(err)
	}
	path, restored := filepath.Join(t.TempDir(), "store.db"), t.TempDir()
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	further := uint64(random.IntN(2) * 1000)
	err = snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: path, Name: etcdName, OutputDataDir: etcdDir(restored), PeerURLs: []string{etcdPeer},
		InitialCluster: etcdName + "=" + etcdPeer, InitialClusterToken: etcdName, RevisionBump: further, MarkCompacted: further > 0 && random.IntN(2) == 0,
	})
	if err != nil {
		t.Fatal(err)
	}
	return restored
}

// TestSoundEtcdIsFoundWhole: whatever has become of it, with stops, kills, conversions and restores. A false alarm would hold the collector.
func TestSoundEtcdIsFoundWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(seedOf(t), 0))
	for round := range size.Of(2, 2, 40) {
		others := round%2 > 0 // no sink takes two keys of one revision
		dir := t.TempDir()
		for range size.Of(1, 1, 3) {
			dir = livedIn(t, dir, random, others)
			if others {
				continue
			}
			further := 1 + random.Int64N(1000)
			for _, engine := range []string{SQLite, Etcd} {
				work := filepath.Join(t.TempDir(), "new")
				if err := os.Mkdir(work, 0o700); err != nil {
					t.Fatal(err)
				}
				conversion := Conversion{
					Dir: dir, Work: work, To: engine, Revision: func(old int64) int64 { return old + further }, Progress: func(string, int64, int64) {},
				}
				if _, err := conversion.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				dir = work
			}
			dir = restoredByEtcdutl(t, dir, random)
			if found := checkedEtcd(t, dir); len(found.Problems) > 0 {
				t.Errorf("after a conversion and a restore the check says %q", found.Problems)
			}
		}
		livedIn(t, dir, random, others)
	}
}

// livedIn runs an etcd in a data directory, and returns one with what is left after a stop or a kill.
func livedIn(t *testing.T, dir string, random *rand.Rand, others bool) string {
	t.Helper()
	killed := func() map[string][]byte {
		s, err := Start(t.Context(), etcdOptions(dir))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		c := s.Client()
		defer func() { _ = c.Close() }() // it has no connection
		lives(t, c, random, others)
		found, known, err := s.Verify(t.Context(), noProgress)
		if err != nil || !known || len(found.Problems) > 0 || found.Keys == 0 {
			t.Errorf("while it runs the check says %+v (%v)", found, err)
		}
		return killedFiles(t, s, dir)
	}()
	if random.IntN(2) == 0 {
		dir = placed(t, killed)
	}
	if found := checkedEtcd(t, dir); len(found.Problems) > 0 {
		t.Errorf("after its end the check says %q", found.Problems)
	}
	return dir
}
