package integration

import (
	"context"
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/gc/report"
)

// metrics returns what /metrics says. It is as large as a book: packing it would be most of the work.
func (c clients) metrics(ctx context.Context) ([]byte, error) {
	return c.kube.CoreV1().RESTClient().(*rest.RESTClient).Get().AbsPath("/metrics").SetHeader("Accept-Encoding", "identity").DoRaw(ctx)
}

func (c clients) get(ctx context.Context, path string) ([]byte, error) {
	return c.kube.CoreV1().RESTClient().(*rest.RESTClient).Get().AbsPath(path).DoRaw(ctx)
}

// collects is true if a collector runs in this very server.
func (c clients) collects(ctx context.Context) (bool, error) {
	raw, err := c.get(ctx, report.Root+"status")
	var status report.Status
	if err == nil {
		err = json.Unmarshal(raw, &status)
	}
	return status.Running, err
}

// TestSystemdIsNotified plays systemd.
func TestSystemdIsNotified(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: filepath.Join(top, "notify")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // nothing more is expected
	s := newServer(top)
	s.env = append(s.env, "NOTIFY_SOCKET="+l.LocalAddr().String())

	// What is told, and the server's state at the moment that it says READY=1.
	type told struct {
		text     string
		collects bool
		err      error // of asking for it, and of /readyz
	}
	messages := make(chan told, 100)
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := l.Read(buffer)
			if err != nil {
				return
			}
			m := told{text: string(buffer[:n])}
			if strings.Contains(m.text, "READY=1") {
				var c clients
				if c, m.err = newClients(filepath.Join(s.dir, "admin.kubeconfig")); m.err == nil {
					m.collects, m.err = c.collects(context.Background())
				}
				if m.err == nil {
					_, m.err = c.get(context.Background(), "/readyz")
				}
			}
			messages <- m
		}
	}()
	s.start(t)
	next := func() told {
		t.Helper()
		select {
		case m := <-messages:
			return m
		case <-time.After(patience):
			t.Fatal("systemd is told nothing")
			return told{}
		}
	}
	if m := next(); m.text != "READY=1" || !m.collects || m.err != nil {
		t.Errorf("got %+v", m)
	}
	s.stop(t)
	if m := next(); m.text != "STOPPING=1" {
		t.Errorf("got %+v", m)
	}
	// Datagrams keep their order: what the server sent last comes before this.
	end, err := net.DialUnix("unixgram", nil, l.LocalAddr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = end.Close() }() // nothing is read from it
	if _, err := end.Write([]byte("END")); err != nil {
		t.Fatal(err)
	}
	for m := next(); m.text != "END"; m = next() {
		t.Errorf("systemd was told more than expected: %+v", m)
	}
}
