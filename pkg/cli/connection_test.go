package cli

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// TestServerThatIsDownTakesOneLine, whatever client-go has to say about it.
func TestServerThatIsDownTakesOneLine(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	writeFile(t, kubeconfig, "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n- {name: a, cluster: {server: 'https://"+
		address+"'}}\ncontexts:\n- {name: a, context: {cluster: a}}\n")
	for _, command := range []string{"status", "why configmaps/x", "pause", "resume"} {
		got := reap(t, nil, append(strings.Fields(command), "--kubeconfig", kubeconfig)...)
		if got.code != exitRun || got.stdout != "" || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, address) {
			t.Errorf("reap %s: %+v", command, got)
		}
	}
}
