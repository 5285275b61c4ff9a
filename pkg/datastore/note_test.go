package datastore

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestNoteIsWrittenByOneOfTwo: a writer that has read an older note, or none, writes nothing.
func TestNoteIsWrittenByOneOfTwo(t *testing.T) {
	for _, endpoint := range []string{"", Etcd} {
		s, err := Start(t.Context(), Options{Dir: t.TempDir(), Endpoint: endpoint, Synchronous: "normal", Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		write := func(value string, before Note) bool {
			t.Helper()
			written, err := s.WriteNote(t.Context(), "/reap/note", []byte(value), before)
			if err != nil {
				t.Error(err)
			}
			return written
		}
		read := func() Note {
			t.Helper()
			n, err := s.Note(t.Context(), "/reap/note")
			if err != nil {
				t.Error(err)
			}
			return n
		}
		none := read()
		if none.Revision != 0 || !write("one", none) || write("two", none) {
			t.Errorf("%q: the note of a new datastore is %+v, or is written twice", endpoint, none)
		}
		one := read()
		if string(one.Value) != "one" || !write("two", one) || write("three", one) || string(read().Value) != "two" {
			t.Errorf("%q: the note is %+v, then %+v", endpoint, one, read())
		}
		s.Stop()
	}
}
