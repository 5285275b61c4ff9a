package integration

import (
	"testing"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/tests/program"
)

// engineName is sqlite or etcd; storeFolder is the folder of its files in a data directory.
func engineName() string {
	if program.Engine == config.EmbeddedEtcd {
		return program.Engine
	}
	return "sqlite"
}

func storeFolder() string {
	if program.Engine == config.EmbeddedEtcd {
		return "etcd"
	}
	return "db"
}

// aboutSQLite skips a test of SQLite's files on another engine.
func aboutSQLite(t *testing.T) {
	t.Helper()
	if program.Engine != "" {
		t.Skip("about SQLite's files")
	}
}
