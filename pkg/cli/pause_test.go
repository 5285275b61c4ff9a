package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// TestResumeSeesThatTheCollectorHasNoticed: the collector says at first that it is paused, then nothing
// about it.
func TestResumeSeesThatTheCollectorHasNoticed(t *testing.T) {
	var asked atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/configmaps/reap-gc", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "reap-gc"}, "data": {"paused": "false"}}`)
	})
	mux.HandleFunc("GET /reap/v1/status", func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			fmt.Fprint(w, `{"running": true, "pause": {"paused": true}}`)
			return
		}
		fmt.Fprint(w, `{"running": true}`)
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	writeFile(t, kubeconfig, "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n- {name: a, cluster: {server: '"+
		server.URL+"'}}\ncontexts:\n- {name: a, context: {cluster: a}}\n")
	got := reap(t, nil, "resume", "--kubeconfig", kubeconfig)
	if got.code != exitOK || got.stderr != "" || asked.Load() != 2 {
		t.Errorf("%+v after asking %d times", got, asked.Load())
	}
}
