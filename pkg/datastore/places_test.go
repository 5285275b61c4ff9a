package datastore

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

func TestValuesLieWhereTheirNamesSay(t *testing.T) {
	thing := func(apiVersion, kind, namespace, name string) []byte {
		return []byte(`{"apiVersion":"` + apiVersion + `","kind":"` + kind + `","metadata":{"namespace":"` + namespace + `","name":"` + name + `"}}`)
	}
	for _, tc := range []struct {
		key   string
		value []byte
		says  string // "" for nothing
	}{
		{"/registry/configmaps/default/a", thing("v1", "ConfigMap", "default", "a"), ""},
		{"/registry/configmaps/other/b", thing("v1", "ConfigMap", "other", "b"), ""},
		{"/registry/configmaps/default/a", thing("v1", "ConfigMap", "default", "b"), "holds the ConfigMap default/b"},
		{"/registry/configmaps/default/a", thing("v1", "ConfigMap", "defaulu", "a"), "holds the ConfigMap defaulu/a"},
		{"/registry/configmaps/a", thing("v1", "ConfigMap", "default", "a"), "holds the ConfigMap default/a"},
		{"/registry/configmapsdefault/a", thing("v1", "ConfigMap", "default", "a"), "holds the ConfigMap default/a"},
		{"/registry/configmaps/default/ba", thing("v1", "ConfigMap", "default", "a"), "holds the ConfigMap default/a"},
		{"/registry/confiomaps/default/a", thing("v1", "ConfigMap", "default", "a"), "another one is below /registry/configmaps"},
		{"/regi2try/configmaps/default/a", thing("v1", "ConfigMap", "default", "a"), "another one is below /registry/configmaps"},
		{"/registry/minions/a", thing("v1", "Node", "", "a"), ""},
		{"/registry/minions/b", thing("v1", "Node", "", "a"), "holds the Node a"},
		// Kinds of one name in two groups have places of their own; a group's versions have one.
		{"/registry/example.com/configmaps/default/a", thing("example.com/v1", "ConfigMap", "default", "a"), ""},
		{"/registry/example.com/configmaps/default/b", thing("example.com/v2", "ConfigMap", "default", "b"), ""},
		// What the API server keeps for itself has no name.
		{"/registry/masterleases/192.0.2.1", thing("v1", "Endpoints", "", ""), ""},
		{"/registry/services/endpoints/default/a", thing("v1", "Endpoints", "default", "a"), ""},
		{"/registry/secrets/default/a", []byte("k8s:enc:aescbc:v1:key:\x00"), ""},
		{"/registry/secrets/default/a", []byte("k8s\x00\xff"), "cannot be decoded"},
		{"/registry/secrets/default/a", []byte("{"), "cannot be decoded"},
		{"elsewhere", []byte("{"), ""},
		{"elsewhere", []byte("1"), ""},
	} {
		p := places{}
		for _, known := range []string{"/registry/configmaps/default/a", "/registry/configmaps/other/b"} {
			parts := strings.Split(known, "/")
			if what := p.wrong(known, thing("v1", "ConfigMap", parts[3], parts[4])); what != "" {
				t.Fatal(what)
			}
		}
		if what := p.wrong(tc.key, tc.value); what != tc.says && (tc.says == "" || !strings.Contains(what, tc.says)) {
			t.Errorf("%s, %q: it says %q, want %q", tc.key, tc.value, what, tc.says)
		}
	}
	p := places{}
	for key, value := range map[string][]byte{
		"/registry/example.com/configmaps/default/a": thing("example.com/v1", "ConfigMap", "default", "a"),
		"/registry/example.com/configmaps/default/b": thing("example.com/v2", "ConfigMap", "default", "b"),
	} {
		if what := p.wrong(key, value); what != "" {
			t.Error(what)
		}
	}
}

// TestDatabaseOfAnotherProgramIsRefused: a server would take it over as a new store.
func TestDatabaseOfAnotherProgramIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "db"), 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open(sqliteDriver, sqlitePath(dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE accounts(id INTEGER)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if empty, err := CheckSQLite(t.Context(), dir); !errors.Is(err, errOthers) {
		t.Errorf("it is empty: %v (%v)", empty, err)
	}
}

func TestEtcdSinkTakesNoRevisionTwice(t *testing.T) {
	sink, err := NewEtcdSink(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sink.Close() }() // it is given up
	for i, key := range []string{"/a", "/b"} {
		err := sink.Put(dump.Record{Key: []byte(key), Value: []byte("{}"), CreateRevision: 5, ModRevision: 5})
		if (err != nil) != (i == 1) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
