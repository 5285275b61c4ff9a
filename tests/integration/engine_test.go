package integration

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/reap-dev/reap/pkg/config"
)

// engine is the endpoint of servers that a test gives none: "" for SQLite, or etcd, which REAP_TEST_ENGINE names.
var engine = os.Getenv("REAP_TEST_ENGINE")

// onEngine adds the engine to a server's arguments if they name no datastore.
func onEngine(args []string) []string {
	named := func(arg string) bool { return strings.HasPrefix(arg, "--datastore-endpoint") }
	if engine == "" || slices.ContainsFunc(args, named) {
		return args
	}
	return append([]string{"--datastore-endpoint", engine}, args...)
}

// engineName is sqlite or etcd; storeFolder is the folder of its files in a data directory.
func engineName() string {
	if engine == config.EmbeddedEtcd {
		return engine
	}
	return "sqlite"
}

func storeFolder() string {
	if engine == config.EmbeddedEtcd {
		return "etcd"
	}
	return "db"
}

// aboutSQLite skips a test of SQLite's files on another engine.
func aboutSQLite(t *testing.T) {
	t.Helper()
	if engine != "" {
		t.Skip("about SQLite's files")
	}
}
