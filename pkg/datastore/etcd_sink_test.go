package datastore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	"github.com/reap-dev/reap/pkg/datastore/dump"
	"github.com/reap-dev/reap/tests/size"
)

// putAll puts keys with values of a size, whose revisions come in no order.
func putAll(t testing.TB, sink *EtcdSink, keys, size int, then func()) {
	t.Helper()
	for i, at := range rand.New(rand.NewPCG(1, 2)).Perm(keys) {
		revision := int64(at + 10)
		err := sink.Put(dump.Record{
			Key: fmt.Appendf(nil, "/registry/x/%06d", i), Value: bytes.Repeat([]byte("v"), size), CreateRevision: revision, ModRevision: revision,
		})
		if err != nil {
			t.Fatal(err)
		}
		then()
	}
}

// TestEtcdSinkKeepsFewValuesInMemory: a conversion has the memory of a small device.
func TestEtcdSinkKeepsFewValuesInMemory(t *testing.T) {
	const large, allowed = 1 << 20, 64 << 20
	keys := size.Of(160, 160, 400)
	sink, err := NewEtcdSink(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var most uint64
	n := 0
	putAll(t, sink, keys, large, func() {
		if n++; n%20 > 0 {
			return
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapAlloc)
	})
	if err := sink.Finish(int64(keys) + 10); err != nil {
		t.Fatal(err)
	}
	if most > allowed {
		t.Errorf("%d MiB are in memory, want %d at most", most>>20, allowed>>20)
	}
	t.Logf("%d MiB were in memory at most", most>>20)
}

// BenchmarkEtcdSink puts 100,000 keys of 800 bytes, in the order of the keys and not of their revisions, as a source hands them out.
func BenchmarkEtcdSink(b *testing.B) {
	for b.Loop() {
		dir := b.TempDir()
		sink, err := NewEtcdSink(b.Context(), dir)
		if err != nil {
			b.Fatal(err)
		}
		const keys = 100_000
		putAll(b, sink, keys, 800, func() {})
		if err := sink.Finish(keys + 10); err != nil {
			b.Fatal(err)
		}
		info, err := os.Stat(etcdDatabase(dir))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/(1<<20), "MiB")
	}
}
