package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

// store is a source of a few records.
type store struct {
	records []dump.Record
	// before is called before each record; may be nil.
	before func(i int) error
}

func (s *store) Read(ctx context.Context, begin func(dump.Head) error, each func(dump.Record) error) error {
	if err := begin(dump.Head{Revision: 5000, Keys: int64(len(s.records))}); err != nil {
		return err
	}
	for i, r := range s.records {
		if s.before != nil {
			if err := s.before(i); err != nil {
				return err
			}
		}
		if err := errors.Join(ctx.Err(), each(r)); err != nil {
			return err
		}
	}
	return nil
}

func someRecords(n int) (all []dump.Record) {
	for i := range n {
		all = append(all, dump.Record{
			Key: fmt.Appendf(nil, "/registry/configmaps/default/%05d", i), Value: []byte(strings.Repeat("value", i%50)),
			CreateRevision: int64(1 + i), ModRevision: int64(1 + i + i%3), Version: int64(i % 4), TTL: time.Duration(i%2) * time.Hour,
		})
	}
	return all
}

var (
	somePKI = map[string][]byte{"serving.key": []byte("key\x00with a zero"), "serving.crt": []byte("certificate")}
	noon    = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
)

// written returns a snapshot.
func written(t *testing.T, c Contents) []byte {
	t.Helper()
	var out bytes.Buffer
	c.Now = noon
	if _, err := Write(t.Context(), &out, c); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestSnapshotHoldsAllKeysAndFiles(t *testing.T) {
	records := someRecords(3000)
	raw := written(t, Contents{Source: &store{records: records}, PKI: somePKI, Reap: "v1"})
	want := Manifest{Version: formatVersion, Made: noon, Revision: 5000, Keys: 3000, PKI: true, Reap: "v1"}
	var began Manifest
	files := map[string][]byte{}
	var got []dump.Record
	m, err := Read(bytes.NewReader(raw), Visitor{
		Begin: func(m Manifest) error { began = m; return nil },
		File:  func(name string, content []byte) error { files[name] = content; return nil },
		Key:   func(r dump.Record) error { got = append(got, r); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		if len(records[i].Value) == 0 {
			records[i].Value, got[i].Value = nil, nil
		}
	}
	if m != want || began != want || !reflect.DeepEqual(got, records) || !maps.EqualFunc(files, somePKI, bytes.Equal) {
		t.Errorf("%+v, %+v, %d files, %d records", m, began, len(files), len(got))
	}
	if m, err := Head(bytes.NewReader(raw)); err != nil || m != want {
		t.Errorf("the manifest is %+v (%v)", m, err)
	}
	if raw := written(t, Contents{Source: &store{records: records[:3]}}); bytes.Contains(raw, []byte("serving.key")) {
		t.Error("it has the name of a key in it")
	}
}

// TestDamageIsFound cuts a snapshot off at every byte, flips a bit of every byte, and appends to it.
func TestDamageIsFound(t *testing.T) {
	raw := written(t, Contents{Source: &store{records: someRecords(40)}, PKI: somePKI})
	try := func(what string, damaged []byte) {
		t.Helper()
		if _, err := Read(bytes.NewReader(damaged), Visitor{}); !IsDamaged(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range raw {
		try(fmt.Sprintf("cut off after %d of %d", i, len(raw)), raw[:i])
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range raw {
		flipped := bytes.Clone(raw)
		flipped[i] ^= 1 << r.IntN(8)
		if _, err := Read(bytes.NewReader(flipped), Visitor{}); err == nil {
			// Some bits of zstd's header have no meaning. Then the content is unchanged, as the checksum proves.
			continue
		} else if !IsDamaged(err) {
			t.Errorf("bit flipped in byte %d: %v", i, err)
		}
	}
	try("something appended", append(bytes.Clone(raw), "more"...))
	try("another appended", append(bytes.Clone(raw), raw...))
	try("text", []byte("this is somebody's text, which is no snapshot"))
	try("nothing", nil)
}

// TestSumCoversAllFrames changes the uncompressed content, which only the checksum can detect.
func TestSumCoversAllFrames(t *testing.T) {
	for what, change := range map[string]func(kind byte, content []byte) []byte{
		"a value": func(kind byte, content []byte) []byte {
			return bytes.Replace(content, []byte("valuevalue"), []byte("valuevalux"), 1)
		},
		"a key of the PKI": func(kind byte, content []byte) []byte {
			return bytes.Replace(content, []byte("with a zero"), []byte("with a hero"), 1)
		},
		"the revision": func(kind byte, content []byte) []byte {
			return bytes.Replace(content, []byte(`"revision":5000`), []byte(`"revision":5001`), 1)
		},
		"nothing": func(_ byte, content []byte) []byte { return content },
	} {
		in, err := newUnframed(bytes.NewReader(written(t, Contents{Source: &store{records: someRecords(9)}, PKI: somePKI})))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		f, err := newFrames(&out)
		if err != nil {
			t.Fatal(err)
		}
		for kind := byte(0); kind != kindEnd; {
			var content []byte
			if kind, content, _, err = in.next(); err != nil {
				t.Fatal(err)
			}
			if err := f.write(kind, change(kind, bytes.Clone(content))); err != nil {
				t.Fatal(err)
			}
		}
		in.close()
		if err := f.out.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(&out, Visitor{}); IsDamaged(err) == (what == "nothing") {
			t.Errorf("%s is another: %v", what, err)
		}
	}
}

// The next attempt may succeed.
func TestReadErrorIsNotDamage(t *testing.T) {
	raw := written(t, Contents{Source: &store{records: someRecords(9)}})
	broken := errors.New("the network has gone")
	_, err := Read(io.MultiReader(bytes.NewReader(raw[:len(raw)/2]), failing{broken}), Visitor{})
	if !errors.Is(err, broken) || IsDamaged(err) {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestSourceThatFailsLeavesNoSnapshot: the part that was written before the failure is not a valid snapshot.
func TestSourceThatFailsLeavesNoSnapshot(t *testing.T) {
	broken := errors.New("the disk cannot be read")
	for at := range 9 {
		var out bytes.Buffer
		s := &store{records: someRecords(9), before: func(i int) error {
			if i == at {
				return broken
			}
			return nil
		}}
		if _, err := Write(t.Context(), &out, Contents{Source: s}); !errors.Is(err, broken) {
			t.Errorf("at %d: %v", at, err)
		}
		if _, err := Read(&out, Visitor{}); !IsDamaged(err) {
			t.Errorf("at %d: what was written is read: %v", at, err)
		}
	}
}

func TestVisitorEndsTheReading(t *testing.T) {
	raw := written(t, Contents{Source: &store{records: someRecords(9)}, PKI: somePKI})
	enough := errors.New("enough")
	for what, v := range map[string]Visitor{
		"manifest": {Begin: func(Manifest) error { return enough }},
		"file":     {File: func(string, []byte) error { return enough }},
		"key":      {Key: func(dump.Record) error { return enough }},
	} {
		if _, err := Read(bytes.NewReader(raw), v); !errors.Is(err, enough) || IsDamaged(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	var out bytes.Buffer
	if _, err := Write(f.Context(), &out, Contents{Source: &store{records: someRecords(20)}, PKI: somePKI, Now: noon}); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		keys := int64(0)
		m, err := Read(bytes.NewReader(raw), Visitor{Key: func(dump.Record) error { keys++; return nil }})
		if err == nil && m.Keys != keys {
			t.Errorf("%d keys of %d", keys, m.Keys)
		}
		if err != nil && !IsDamaged(err) {
			t.Errorf("no reader has failed: %v", err)
		}
	})
}
