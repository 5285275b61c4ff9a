package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// pauseServer answers for a server with a pause's ConfigMap, and with a status; it returns its kubeconfig.
func pauseServer(t *testing.T, data string, status http.HandlerFunc) (kubeconfig string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/configmaps/reap-gc", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "reap-gc"}, "data": %s}`, data)
	})
	mux.HandleFunc("PUT /api/v1/namespaces/kube-system/configmaps/reap-gc", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "reap-gc"}}`)
	})
	mux.HandleFunc("GET /reap/v1/status", status)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	writeFile(t, kubeconfig, "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n- {name: a, cluster: {server: '"+
		server.URL+"'}}\ncontexts:\n- {name: a, context: {cluster: a}}\n")
	return kubeconfig
}

// TestResumeSeesThatTheCollectorHasNoticed: the collector says at first that it is paused, then nothing
// about it.
func TestResumeSeesThatTheCollectorHasNoticed(t *testing.T) {
	var asked atomic.Int32
	kubeconfig := pauseServer(t, `{"paused": "false"}`, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			fmt.Fprint(w, `{"running": true, "pause": {"paused": true}}`)
			return
		}
		fmt.Fprint(w, `{"running": true}`)
	})
	got := reap(t, nil, "resume", "--kubeconfig", kubeconfig)
	if got.code != exitOK || got.stderr != "" || asked.Load() != 2 {
		t.Errorf("%+v after asking %d times", got, asked.Load())
	}
}

// TestResumeSeesThatTheCollectorIsPausedAgain by its guard, before anybody has seen it work.
func TestResumeSeesThatTheCollectorIsPausedAgain(t *testing.T) {
	var asked atomic.Int32
	kubeconfig := pauseServer(t, `{"paused": "true", "since": "2026-01-01T00:00:00Z", "by": "me"}`, func(w http.ResponseWriter, _ *http.Request) {
		since := "2026-01-01T00:00:00.7Z"
		if asked.Add(1) > 1 {
			since = "2026-01-01T00:05:00Z"
		}
		fmt.Fprintf(w, `{"running": true, "pause": {"paused": true, "since": %q, "by": "--gc-guard", "reason": "too many"}}`, since)
	})
	got := reap(t, nil, "resume", "--kubeconfig", kubeconfig)
	if got.code != exitOK || !strings.Contains(got.stdout, "paused again") || !strings.Contains(got.stdout, "too many") || asked.Load() != 2 {
		t.Errorf("%+v after asking %d times", got, asked.Load())
	}
}

// TestPauseInAServerThatDoesNotLead is recorded, and the command does not say that no collector runs.
func TestPauseInAServerThatDoesNotLead(t *testing.T) {
	kubeconfig := pauseServer(t, `{"paused": "false"}`, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"running": false, "absent": "this server waits to lead", "elsewhere": true}`)
	})
	got := reap(t, nil, "pause", "--kubeconfig", kubeconfig)
	if got.code != exitOK || !strings.Contains(got.stdout, "this server does not lead") || strings.Contains(got.stdout, "when one runs") {
		t.Errorf("%+v", got)
	}
}

// TestPauseSaysOnlyWhatIsKnownOfAnother: the ConfigMap may have been written by hand, or on a machine
// whose clock is ahead.
func TestPauseSaysOnlyWhatIsKnownOfAnother(t *testing.T) {
	for data, want := range map[string]string{
		`{"paused": "true"}`: "it is paused already\n",
		`{"paused": "true", "since": "9999-01-01T00:00:00Z", "by": "me"}`: "it is paused already for 0s, by me\n",
	} {
		kubeconfig := pauseServer(t, data, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"running": true, "pause": {"paused": true}}`)
		})
		got := reap(t, nil, "pause", "--kubeconfig", kubeconfig)
		if got.code != exitOK || !strings.HasPrefix(got.stdout, want) {
			t.Errorf("%s: %+v, want %q", data, got, want)
		}
	}
}

// TestResumeRecordsNothingThatItDidNot: the collector is not paused, and the caller may not ask it.
func TestResumeRecordsNothingThatItDidNot(t *testing.T) {
	kubeconfig := pauseServer(t, `{"paused": "false"}`, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	got := reap(t, nil, "resume", "--kubeconfig", kubeconfig)
	if got.code != exitIncomplete || strings.Contains(got.stdout+got.stderr, "recorded") || !strings.Contains(got.stderr, "nothing was changed") {
		t.Errorf("%+v", got)
	}
}

// TestPauseGivesAPauseAnotherReason, and says so.
func TestPauseGivesAPauseAnotherReason(t *testing.T) {
	kubeconfig := pauseServer(t, `{"paused": "true", "reason": "one"}`, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"running": true, "pause": {"paused": true}}`)
	})
	for reason, says := range map[string]bool{"two": true, "one": false, "": false} {
		got := reap(t, nil, "pause", "--reason", reason, "--kubeconfig", kubeconfig)
		if got.code != exitOK || !strings.Contains(got.stdout, "paused already: one") || strings.Contains(got.stdout, "its reason is now: two") != says {
			t.Errorf("%q: %+v", reason, got)
		}
	}
}
