package server

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/pkg/pki"
)

// inMemory is a datastore's notes.
type inMemory struct {
	notes map[string]datastore.Note
	// before is called before a write, once.
	before func()
	broken error // of writes
}

func (m *inMemory) Note(_ context.Context, key string) (datastore.Note, error) {
	return m.notes[key], nil
}

func (m *inMemory) WriteNote(_ context.Context, key string, value []byte, before datastore.Note) (bool, error) {
	if m.before != nil {
		do := m.before
		m.before = nil
		do()
	}
	if m.broken != nil || m.notes[key].Revision != before.Revision {
		return false, m.broken
	}
	m.notes[key] = datastore.Note{Value: value, Revision: before.Revision + 1}
	return true, nil
}

func sharing(t *testing.T) *server {
	t.Helper()
	return &server{cfg: config.Server{DataDir: t.TempDir(), DatastoreEndpoint: "https://etcd-1:2379"}}
}

// joins is what a start does with the certificates.
func (s *server) joins(t *testing.T, m *inMemory) error {
	t.Helper()
	if err := s.agree(t.Context(), m); err != nil {
		return err
	}
	if _, err := pki.Ensure(config.PKIDir(s.cfg.DataDir), pki.Options{}); err != nil {
		t.Fatal(err)
	}
	return s.agree(t.Context(), m)
}

func (s *server) mustJoin(t *testing.T, m *inMemory) {
	t.Helper()
	if err := s.joins(t, m); err != nil {
		t.Errorf("refused: %v", err)
	}
}

func (s *server) mustBeRefused(t *testing.T, m *inMemory) {
	t.Helper()
	before := maps.Clone(m.notes)
	err := s.joins(t, m)
	if err == nil || !strings.Contains(err.Error(), "copy of <data-dir>/pki") || !strings.Contains(err.Error(), "--new-authorities") {
		t.Errorf("the error is %v", err)
	}
	for key, note := range m.notes {
		if note.Revision != before[key].Revision {
			t.Error("a server that is refused writes into the datastore")
		}
	}
}

func copyPKI(t *testing.T, from, to *server) {
	t.Helper()
	dir := config.PKIDir(to.cfg.DataDir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(config.PKIDir(from.cfg.DataDir))); err != nil {
		t.Fatal(err)
	}
}

func replaceAuthority(t *testing.T, s *server, name string) {
	t.Helper()
	for _, suffix := range []string{".pem", ".crt"} {
		if err := os.Remove(filepath.Join(config.PKIDir(s.cfg.DataDir), name+suffix)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestServersOfOneDatastoreHaveOneIdentity(t *testing.T) {
	m := &inMemory{notes: map[string]datastore.Note{}}
	first, second := sharing(t), sharing(t)
	first.mustJoin(t, m)
	first.mustJoin(t, m)
	second.mustBeRefused(t, m)
	if made, err := os.ReadDir(config.PKIDir(second.cfg.DataDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a server that is refused has made %v (%v)", made, err)
	}
	copyPKI(t, first, second)
	second.mustJoin(t, m)

	// An authority is replaced as docs/certificates.md says: at one server, and the others need a copy.
	replaceAuthority(t, first, "client-ca")
	first.mustJoin(t, m)
	first.mustJoin(t, m)
	second.mustBeRefused(t, m)
	copyPKI(t, first, second)
	second.mustJoin(t, m)
	replaceAuthority(t, second, "server-ca")
	second.mustJoin(t, m)
	first.mustBeRefused(t, m)

	// The certificates are lost with the machine.
	third := sharing(t)
	third.mustBeRefused(t, m)
	third.cfg.NewAuthorities = true
	third.mustJoin(t, m)
	third.cfg.NewAuthorities = false
	third.mustJoin(t, m)
	second.mustBeRefused(t, m)

	// Another cluster in the same etcd.
	other := sharing(t)
	other.cfg.KubeAPIServerArgs = []string{"etcd-prefix=/other/"}
	other.mustJoin(t, m)
	third.mustJoin(t, m)
}

func TestServersThatStartAtOnceHaveOneIdentity(t *testing.T) {
	m := &inMemory{notes: map[string]datastore.Note{}}
	fast, slow := sharing(t), sharing(t)
	m.before = func() { fast.mustJoin(t, m) }
	if err := slow.joins(t, m); err == nil {
		t.Error("both have their own")
	}
	fast.mustJoin(t, m)
}

func TestDatastoreOfOneServerKeepsNoIdentity(t *testing.T) {
	for _, endpoint := range []string{"", config.EmbeddedEtcd} {
		m := &inMemory{notes: map[string]datastore.Note{}}
		s := sharing(t)
		s.cfg.DatastoreEndpoint = endpoint
		s.mustJoin(t, m)
		if len(m.notes) != 0 {
			t.Errorf("%q: %v is written", endpoint, m.notes)
		}
	}
}

// A database that is full or read-only can still be served.
func TestIdentityThatCannotBeRecordedStopsNoStart(t *testing.T) {
	m := &inMemory{notes: map[string]datastore.Note{}, broken: errors.New("read-only")}
	s := sharing(t)
	s.mustJoin(t, m)
	m.broken = nil
	s.mustJoin(t, m)
	replaceAuthority(t, s, "client-ca")
	m.broken = errors.New("read-only")
	s.mustJoin(t, m)
	m.broken = nil
	s.mustJoin(t, m)
	sharing(t).mustBeRefused(t, m)
}
