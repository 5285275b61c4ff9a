package cli

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// standIn serves handler as a reap server would, and returns it with the data directory that such a server leaves.
func standIn(t *testing.T, handler http.HandlerFunc) (*httptest.Server, string) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that do not trust it are meant to be there
	server.StartTLS()
	t.Cleanup(server.Close)
	dir := t.TempDir()
	c := clientcmdapi.NewConfig()
	c.Clusters["reap"] = &clientcmdapi.Cluster{
		Server:                   "https://127.0.0.1:1", // the ready file is right
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
	c.Contexts["reap"] = &clientcmdapi.Context{Cluster: "reap"}
	c.CurrentContext = "reap"
	if err := clientcmd.WriteToFile(*c, filepath.Join(dir, "admin.kubeconfig")); err != nil {
		t.Fatal(err)
	}
	writeReady(t, dir, server.URL)
	return server, dir
}

func writeReady(t *testing.T, dir, url string) {
	t.Helper()
	writeFile(t, filepath.Join(dir, "ready.json"),
		fmt.Sprintf(`{"url": %q, "kubeconfig": "/another/mount/admin.kubeconfig", "pid": 1, "version": "v1"}`, url))
}

func TestHealthOfAServerThatIsReady(t *testing.T) {
	server, dir := standIn(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			http.NotFound(w, r)
		}
	})
	// Another server is no answer.
	env := []string{"KUBECONFIG=/no/such/file", "REAP_DATA_DIR=" + dir}
	if got, want := reap(t, env, "healthcheck"), (result{exitOK, "ready: " + server.URL + "\n", ""}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	got := reap(t, nil, "healthcheck", "-o=json", "--data-dir", dir)
	var h health
	if err := json.Unmarshal([]byte(got.stdout), &h); err != nil || got.code != exitOK || got.stderr != "" {
		t.Fatalf("got %+v (%v)", got, err)
	}
	if want := (health{Ready: true, URL: server.URL, PID: 1, Version: "v1"}); h != want {
		t.Errorf("got %+v, want %+v", h, want)
	}
}

func TestHealthOfAServerThatIsNotReady(t *testing.T) {
	ok := func(http.ResponseWriter, *http.Request) {}
	_, unused := standIn(t, ok)
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc
		// change is what befalls the data directory of the server.
		change func(server *httptest.Server, dir string)
		args   []string
		want   string // SERVER stands for its URL, DIR for its directory
	}{
		{
			name: "checks fail",
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusInternalServerError)
				fmt.Fprint(w, "[+]ping ok\n[-]etcd failed: reason withheld\n[-]poststarthook/rbac/bootstrap-roles failed: not finished\nreadyz check failed\n")
			},
			want: "asking the server at SERVER: these checks fail: etcd, poststarthook/rbac/bootstrap-roles",
		},
		{
			name:    "something else answers",
			handler: http.NotFound,
			want:    "asking the server at SERVER: it answers 404 Not Found",
		},
		{
			name:    "no answer",
			handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			args:    []string{"--timeout=200ms"},
			want:    "asking the server at SERVER: no answer within 200ms",
		},
		{
			name:   "not ready yet",
			change: func(_ *httptest.Server, dir string) { remove(t, filepath.Join(dir, "ready.json")) },
			want:   "no server on DIR has said that it is ready",
		},
		{
			name:   "ready file that could not be removed",
			change: func(_ *httptest.Server, dir string) { writeFile(t, filepath.Join(dir, "ready.json"), "") },
			want:   "no server on DIR has said that it is ready",
		},
		{
			name:   "ready file of something else",
			change: func(_ *httptest.Server, dir string) { writeFile(t, filepath.Join(dir, "ready.json"), "yes") },
			want:   "reading the ready file DIR/ready.json: invalid character 'y' looking for beginning of value",
		},
		{
			name:   "killed",
			change: func(server *httptest.Server, _ string) { server.Close() },
			want:   "asking the server at SERVER: dial tcp ADDRESS: connect: connection refused",
		},
		{
			name: "another server has the port",
			change: func(_ *httptest.Server, dir string) {
				remove(t, filepath.Join(dir, "admin.kubeconfig"))
				writeKubeconfig(t, filepath.Join(dir, "admin.kubeconfig"), "any", "a") // the world's CAs, not the server's
			},
			want: "asking the server at SERVER: tls: failed to verify certificate: x509: certificate signed by unknown authority",
		},
		{
			name:   "no kubeconfig",
			change: func(_ *httptest.Server, dir string) { remove(t, filepath.Join(dir, "admin.kubeconfig")) },
			want:   "reading the server's kubeconfig: stat DIR/admin.kubeconfig: no such file or directory",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			handler := tc.handler
			if handler == nil {
				handler = ok
			}
			server, dir := standIn(t, handler)
			if tc.change != nil {
				tc.change(server, dir)
			}
			want := strings.NewReplacer("SERVER", server.URL, "ADDRESS", server.Listener.Addr().String(), "DIR", dir).Replace(tc.want)
			args := append([]string{"healthcheck", "--data-dir=" + dir}, tc.args...)
			// One that is ready elsewhere is no answer.
			t.Setenv("KUBECONFIG", filepath.Join(unused, "admin.kubeconfig"))
			if got, want := inProcess(t, args...), (result{exitRun, "", "reap: not ready: " + want + "\n"}); got != want {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
			got := inProcess(t, append(args, "--output=json")...)
			var h health
			if err := json.Unmarshal([]byte(got.stdout), &h); err != nil {
				t.Fatalf("%+v: %v", got, err)
			}
			if got.code != exitRun || got.stderr != "reap: "+want+"\n" || h.Ready || h.Reason != want {
				t.Errorf("as JSON: %+v", got)
			}
		})
	}
}

// TestHealthIsWaitedFor: a server that has just been started becomes ready, and one that does not is not waited for any longer.
func TestHealthIsWaitedFor(t *testing.T) {
	var asked atomic.Int32
	server, dir := standIn(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			http.Error(w, "not yet", http.StatusInternalServerError)
		}
	})
	if got, want := inProcess(t, "healthcheck", "--data-dir="+dir, "--wait=1h"), (result{exitOK, "ready: " + server.URL + "\n", ""}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	remove(t, filepath.Join(dir, "ready.json"))
	if got, want := inProcess(t, "healthcheck", "--data-dir="+dir, "--wait=10ms"), (result{exitRun, "", "reap: not ready: no server on " + dir + " has said that it is ready\n"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// inProcess is reap without the second that a process takes to start with the race detector.
func inProcess(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), append([]string{"reap"}, args...), &stdout, &stderr, nil)
	return result{code, stdout.String(), stderr.String()}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func TestHealthcheckThatIsNotUnderstood(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"now"}, "reap healthcheck takes no arguments, only flags, and got \"now\"; see 'reap healthcheck --help'"},
		{[]string{"-o", "yaml"}, `--output has to be text or json, not "yaml"`},
		{[]string{"--wait=-1s"}, "--wait: -1s is no time to wait: give a duration such as 2m"},
		{[]string{"--timeout=0s"}, "--timeout: 0s is no time to answer in: give a duration such as 5s"},
		{[]string{"--kubeconfig=x"}, "unknown flag --kubeconfig; see 'reap healthcheck --help'"},
	} {
		got := reap(t, nil, append([]string{"healthcheck"}, tc.args...)...)
		if want := (result{exitUsage, "", "reap: " + tc.want + "\n"}); got != want {
			t.Errorf("%q: got %+v, want %+v", tc.args, got, want)
		}
	}
	t.Run("without a home directory", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("root has a data directory in any case")
		}
		got := reap(t, []string{"HOME=", "XDG_DATA_HOME="}, "healthcheck")
		if want := (result{exitUsage, "", "reap: there is no home directory to look for a server in: name its data directory with --data-dir\n"}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}
