package datastore

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// TestEtcdutlTakesTheSnapshot: etcd's own tool finds it in order, restores it with the check of its checksum, and an
// etcd serves every key at its revision.
func TestEtcdutlTakesTheSnapshot(t *testing.T) {
	const keys = 1500
	for _, engine := range []string{SQLite, Etcd} {
		for _, bump := range []uint64{0, 1_000_000} {
			dir := t.TempDir()
			want := filled(t, dir, engine, keys)
			from, err := Open(t.Context(), dir, false)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			head, err := WriteEtcdSnapshot(t.Context(), &out, from, t.TempDir(), func(int64, int64) {})
			from.Close()
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "store.db")
			if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			tool := snapshot.NewV3(zap.NewNop())
			status, err := tool.Status(path)
			if err != nil || status.TotalKey != keys || status.Revision != head.Revision {
				t.Errorf("of %s: etcdutl snapshot status says %+v (%v)", engine, status, err)
			}
			restored := t.TempDir()
			err = tool.Restore(snapshot.RestoreConfig{
				SnapshotPath: path, Name: etcdName, OutputDataDir: etcdDir(restored), PeerURLs: []string{etcdPeer},
				InitialCluster: etcdName + "=" + etcdPeer, InitialClusterToken: etcdName, RevisionBump: bump, MarkCompacted: bump > 0,
			})
			if err != nil {
				t.Fatalf("of %s: etcdutl snapshot restore: %v", engine, err)
			}
			o, err := Open(t.Context(), restored, false)
			if err != nil {
				t.Fatal(err)
			}
			got, records := dumped(t, o)
			o.Close()
			mustEqual(t, "restored from "+engine, got, dump.Head{Revision: head.Revision + int64(bump), Keys: keys}, records, want)
		}
	}
}
