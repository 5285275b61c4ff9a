package snapshot

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// crafted is a snapshot with a sum that is right, whatever its content.
func crafted(t *testing.T, m Manifest, files [][]byte, records []dump.Record) []byte {
	t.Helper()
	var out bytes.Buffer
	f, err := newFrames(&out)
	if err != nil {
		t.Fatal(err)
	}
	m.Version = formatVersion
	if err := f.writeJSON(kindManifest, m); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if err := f.write(kindFile, file); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range records {
		if err := f.write(kindKey, appendKey(nil, r)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.end(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestSnapshotOfNoStoreIsRefused, although its sum is right.
func TestSnapshotOfNoStoreIsRefused(t *testing.T) {
	file := []byte("admin.key\x00key")
	record := func(key string, revision int64) dump.Record {
		return dump.Record{Key: []byte(key), Value: []byte("{}"), CreateRevision: revision, ModRevision: revision}
	}
	with := func(change func(*dump.Record)) dump.Record {
		r := record("/a", 5)
		change(&r)
		return r
	}
	for name, tc := range map[string]struct {
		m       Manifest
		files   [][]byte
		records []dump.Record
		says    string // "" for nothing
	}{
		"whole":                    {Manifest{Revision: 9, Keys: 2, PKI: true}, [][]byte{file}, []dump.Record{record("/a", 5), record("/b", 9)}, ""},
		"by a database that folds": {Manifest{Revision: 9, Keys: 3}, nil, []dump.Record{record("/a", 5), record("/B", 9), record("/c", 6)}, ""},
		"no PKI":                   {Manifest{Revision: 9, Keys: 1, PKI: true}, nil, []dump.Record{record("/a", 5)}, "holds no keys and certificates"},
		"a PKI":                    {Manifest{Revision: 9, Keys: 1}, [][]byte{file}, []dump.Record{record("/a", 5)}, "says that it does not"},
		"below its keys":           {Manifest{Revision: 4, Keys: 1}, nil, []dump.Record{record("/a", 5)}, "and the snapshot of revision 4"},
		"a key at 2^40":            {Manifest{Revision: 9, Keys: 1}, nil, []dump.Record{record("/a", 1<<40)}, "is of revision 1099511627776"},
		"a lease of -1":            {Manifest{Revision: 9, Keys: 1}, nil, []dump.Record{with(func(r *dump.Record) { r.TTL = -time.Second })}, "-1 seconds"},
		"a version of -1":          {Manifest{Revision: 9, Keys: 1}, nil, []dump.Record{with(func(r *dump.Record) { r.Version = -1 })}, "version (-1)"},
		"a negative revision":      {Manifest{Revision: -1}, nil, nil, "revision -1"},
		"a key twice":              {Manifest{Revision: 9, Keys: 2}, nil, []dump.Record{record("/a", 5), record("/a", 6)}, "comes twice"},
		"a key twice, apart":       {Manifest{Revision: 9, Keys: 3}, nil, []dump.Record{record("/a", 5), record("/b", 6), record("/a", 7)}, "comes twice"},
		"a large PKI":              {Manifest{Revision: 9, Keys: 0, PKI: true}, [][]byte{make([]byte, maxPKI/2), make([]byte, maxPKI/2+1)}, nil, "take more than"},
	} {
		_, err := Read(bytes.NewReader(crafted(t, tc.m, tc.files, tc.records)), Visitor{})
		if tc.says == "" && err != nil || tc.says != "" && (!IsDamaged(err) || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSmallSnapshotTakesLittleMemory: few bytes that unpack to 400 MB of keys, or of files.
func TestSmallSnapshotTakesLittleMemory(t *testing.T) {
	const frames, allowed = 100, 64 << 20
	files, records := [][]byte{}, []dump.Record{}
	large := make([]byte, 4<<20)
	for i := range frames {
		files = append(files, large)
		records = append(records, dump.Record{Key: []byte{'/', byte(1 + i/100), byte(1 + i%100)}, Value: large, CreateRevision: 5, ModRevision: 5})
	}
	for name, raw := range map[string][]byte{
		"files": crafted(t, Manifest{Revision: 9, PKI: true}, files, nil),
		"keys":  crafted(t, Manifest{Revision: 9, Keys: frames}, nil, records),
	} {
		if len(raw) > 500<<10 {
			t.Fatalf("%s: it takes %d bytes", name, len(raw))
		}
		most, seen := uint64(0), int64(0)
		look := func(bytes int) error {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			most, seen = max(most, m.HeapAlloc), seen+int64(bytes)
			return nil
		}
		held := [][]byte{} // as a restore holds the files
		_, err := Read(bytes.NewReader(raw), Visitor{
			File: func(_ string, content []byte) error { held = append(held, content); return look(len(content)) },
			Key:  func(r dump.Record) error { return look(len(r.Value)) },
		})
		if !IsDamaged(err) || most > allowed || seen > freely+maxRatio*int64(len(raw)) {
			t.Errorf("%s: %d bytes: %d MiB in memory, %d MiB read, %d files held: %v", name, len(raw), most>>20, seen>>20, len(held), err)
		}
		t.Logf("%s: %d bytes: %d MiB in memory, %d MiB read: %v", name, len(raw), most>>20, seen>>20, err)
	}
}
