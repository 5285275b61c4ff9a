package reaptest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/reap-dev/reap/reaptest"
)

func TestStartAndStop(t *testing.T) {
	var log bytes.Buffer
	s := reaptest.Start(t, reaptest.WithLog(&log))
	clientOf(t, s).mustServe(t)

	fromFile, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if fromFile.Host != s.Config().Host || len(fromFile.CertData) == 0 {
		t.Errorf("the kubeconfig is of %s, not %s, or has no client certificate", fromFile.Host, s.Config().Host)
	}
	s.Config().Host = "changed"
	if s.Config().Host == "changed" {
		t.Error("one caller's Config is another's")
	}

	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "reap is stopping") {
		t.Errorf("the log does not tell of the stop:\n%s", &log)
	}
	if _, err := os.Stat(filepath.Dir(s.Kubeconfig)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data outlives the server (%v)", err)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("stopping what is stopped: %v", err)
	}
}

func TestServersSideBySide(t *testing.T) {
	const n = 2
	for i := range n {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			c := clientOf(t, reaptest.Start(t))
			c.create(t, fmt.Sprint("of-", i))
			_, err := c.CoreV1().ConfigMaps("default").Get(t.Context(), fmt.Sprint("of-", (i+1)%n), metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				t.Errorf("reading what another server may have: %v", err)
			}
		})
	}
}

func TestKeptDataIsFoundAgain(t *testing.T) {
	for name, options := range map[string][]reaptest.Option{"sqlite": nil, "etcd": {reaptest.WithDatastore("etcd")}} {
		t.Run(name, func(t *testing.T) {
			options := append(options, reaptest.WithDir(t.TempDir()))
			first := reaptest.Start(t, options...)
			clientOf(t, first).create(t, "kept")
			if err := first.Stop(); err != nil {
				t.Fatal(err)
			}
			c := clientOf(t, reaptest.Start(t, options...))
			if _, err := c.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// What would turn a server of this machine into another must not turn the test's.
func TestEnvironmentIsNotTheServers(t *testing.T) {
	t.Setenv("REAP_DATASTORE_ENDPOINT", "mysql://nobody@tcp(127.0.0.1:1)/nothing")
	t.Setenv("REAP_HTTPS_LISTEN_PORT", "no number")
	t.Setenv("REAP_CONFIG", filepath.Join(t.TempDir(), "missing"))
	clientOf(t, reaptest.Start(t)).mustServe(t)
}

func TestServerThatCannotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() }) // nobody has called
	_, port, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		option reaptest.Option
		want   []string
	}{
		"its port is taken":     {reaptest.WithArgs("--https-listen-port=" + port), []string{"exit status 1", "its log:", "address already in use"}},
		"it knows no such flag": {reaptest.WithArgs("--no-such-flag"), []string{"exit status 2", "its log:", "no-such-flag"}},
		"there is no binary":    {reaptest.WithBinary(filepath.Join(t.TempDir(), "reap")), []string{"no such file", "REAP_BINARY", "./scripts/build"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			_, err := reaptest.Run(t.Context(), test.option)
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in the error: %v", want, err)
				}
			}
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v (%v)", left, err)
			}
			f := failing{TB: t}
			if f.do(func() { reaptest.Start(&f, test.option) }); !strings.Contains(f.said, test.want[0]) {
				t.Errorf("Start fails the test with %q", f.said)
			}
		})
	}
}

// failing is a test that may fail.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Fatal(args ...any) {
	f.said = fmt.Sprint(args...)
	panic(f)
}

func (f *failing) do(start func()) {
	defer func() {
		if r := recover(); r != nil && r != f {
			panic(r)
		}
	}()
	start()
}

// A start that is called off leaves nothing.
func TestStartThatIsCalledOff(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	called := errors.New("called off")
	// By its first line of log it runs and is far from ready.
	s, err := reaptest.Run(ctx, reaptest.WithLog(writer(func([]byte) { cancel(called) })))
	if !errors.Is(err, called) {
		t.Errorf("Run returned %v, %v", s, err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

type writer func([]byte)

// Write fails, as logs do on full disks; servers go on.
func (w writer) Write(p []byte) (int, error) {
	w(p)
	return 0, errors.New("no room")
}
