package cli

import (
	"strings"
	"testing"

	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/pkg/server"
)

func TestRestoreSaysHowToStart(t *testing.T) {
	for engine, want := range map[string]string{
		datastore.SQLite: "start the server without --datastore-endpoint", datastore.Etcd: "start the server with --datastore-endpoint=etcd",
	} {
		var out strings.Builder
		if err := (restoredSnapshot{server.Restored{Engine: engine}}).Print(&out); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); !strings.Contains(text, "as "+engine+";") || !strings.Contains(text, want) {
			t.Errorf("%s: it says %s", engine, text)
		}
	}
}
