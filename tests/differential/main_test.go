// Package differential runs the same random worlds on two real servers, one with this collector and one
// with that of Kubernetes, and compares the remaining objects. docs/semantics.md lists the permitted
// differences; any other is a defect.
package differential

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/reap-dev/reap/tests/program"
	"github.com/reap-dev/reap/tests/program/asreap"
	"github.com/reap-dev/reap/tests/stock"
)

// patience bounds every wait for a condition.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	asreap.Main()
	// Upstream's collector logs every failure.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// server is a reap server as a child of the test.
type server struct {
	name       string
	kubeconfig string
	config     *rest.Config
	dyn        dynamic.Interface
}

// start starts a server on the engine that REAP_TEST_ENGINE names, which ends with the test.
func start(t *testing.T, name string, args ...string) *server {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "data")
	log, err := os.Create(program.LogFile(top))
	if err != nil {
		t.Fatal(err)
	}
	cmd := program.Server([]string{"HOME=" + top}, append([]string{"server", "--config=", "--data-dir", dir, "--https-listen-port", "0"}, program.OnEngine(args)...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // may have ended
		late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		raw, err := os.ReadFile(log.Name())
		if err == nil {
			err = program.CheckLog(raw)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if t.Failed() {
			t.Logf("log of the server %s:\n%s", name, raw[max(0, len(raw)-8<<10):])
		}
		_ = log.Close() // the process had its own
	})
	var ready struct {
		Kubeconfig string `json:"kubeconfig"`
	}
	err = wait.PollUntilContextTimeout(t.Context(), 25*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		raw, err := os.ReadFile(filepath.Join(dir, "ready.json"))
		return err == nil && json.Unmarshal(raw, &ready) == nil, nil
	})
	if err != nil {
		t.Fatalf("%s does not get ready: %v", name, err)
	}
	s := &server{name: name, kubeconfig: ready.Kubeconfig}
	if s.config, err = clientcmd.BuildConfigFromFlags("", ready.Kubeconfig); err == nil {
		s.config.QPS = -1
		s.dyn, err = dynamic.NewForConfig(s.config)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// runUpstream runs the collector of Kubernetes against a server until the test ends.
func runUpstream(t *testing.T, s *server) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended, err := stock.Start(ctx, s.config, s.config)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Fatal("upstream's collector does not end")
		}
	})
}
