package config

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDefaultDataDir(t *testing.T) {
	for _, tc := range []struct {
		name string
		euid int
		env  map[string]string
		want string
	}{
		{"root", 0, map[string]string{"HOME": "/home/admin", "XDG_DATA_HOME": "/home/admin/data"}, "/var/lib/reap"},
		{"XDG", 1000, map[string]string{"HOME": "/home/u", "XDG_DATA_HOME": "/data"}, "/data/reap"},
		{"home", 1000, map[string]string{"HOME": "/home/u"}, "/home/u/.local/share/reap"},
		{"relative XDG", 1000, map[string]string{"HOME": "/home/u", "XDG_DATA_HOME": "data"}, "/home/u/.local/share/reap"},
		{"homeless", 1000, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := defaultDataDir(tc.euid, func(name string) (string, bool) {
				v, found := tc.env[name]
				return v, found
			})
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestPathsAreMadeAbsolute(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := load(t, layers{args: []string{"--data-dir=a/../b", "--write-kubeconfig=k"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(wd, "b"); s.DataDir != want {
		t.Errorf("data directory is %s, want %s", s.DataDir, want)
	}
	if want := filepath.Join(wd, "k"); s.WriteKubeconfig != want {
		t.Errorf("kubeconfig is %s, want %s", s.WriteKubeconfig, want)
	}
}

func TestDisabled(t *testing.T) {
	for _, tc := range []struct {
		disable []string
		name    string
		want    bool
	}{
		{nil, "gc", false},
		{[]string{"gc"}, "gc", true},
		{[]string{"gc"}, "namespace", false},
		{[]string{"namespace"}, "namespace", true},
		{[]string{"namespace"}, "serviceaccount", false},
		{[]string{"namespace"}, "controllers", false},
		{[]string{"controllers"}, "controllers", true},
		{[]string{"controllers"}, "root-ca-publisher", true},
		{[]string{"controllers"}, "gc", false},
	} {
		if got := (Server{Disable: tc.disable}).Disabled(tc.name); got != tc.want {
			t.Errorf("with %q disabled, Disabled(%q) is %t", tc.disable, tc.name, got)
		}
	}
}

func TestSQLite(t *testing.T) {
	for endpoint, want := range map[string]bool{
		"":                             true,
		"sqlite:///srv/state.db":       true,
		"postgres://db/reap":           false,
		"mysql://sqlite://":            false,
		"https://etcd-1:2379,https://": false,
	} {
		s := Server{DatastoreEndpoint: endpoint}
		if s.SQLite() != want || s.SharedDatastore() == want {
			t.Errorf("%q: SQLite is %t, SharedDatastore %t", endpoint, s.SQLite(), s.SharedDatastore())
		}
	}
}

// TestNothingHarmfulIsSuggestedForAnotherWord: one slip in its own name is the most that leads to it.
func TestNothingHarmfulIsSuggestedForAnotherWord(t *testing.T) {
	names := []string{"all-namespaces", "cascade", "all", "yes", "y", "restore", "remove", "resume", "save", "list", "wait", "watch"}
	for word, want := range map[string]string{
		"all-namespace": "all-namespaces", "restor": "restore", "remov": "remove", "allnamespaces": "all-namespaces", "now": "", "yess": "yes", "lst": "list", "wacth": "watch",
		"al-namespace": "", "al": "", "al1": "", "ally": "", "calls": "", "remore": "", "resore": "", "revome": "",
		"rsume": "resume", "reusme": "", "yet": "yes", "last": "list", "cascades": "cascade", "paste": "",
	} {
		if got := Nearest(word, names); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"data-dir", "datastore-endpoint", "disable", "gc-workers"}
	for word, want := range map[string]string{
		"data-dirr": "data-dir", "DataDir": "data-dir", "--data_dir": "data-dir", "datastore": "", "dat-adir": "data-dir",
		"gc-worker": "gc-workers", "disabled": "disable", "qqq": "", "": "",
	} {
		if got := Nearest(word, names); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
}
