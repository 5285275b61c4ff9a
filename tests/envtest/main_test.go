package envtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// binary names the program that scripts/build has made; scripts/test sets it.
const binary = "REAP_BINARY"

// graphCheck says how often the collector checks its own graph.
const graphCheck = "REAP_GC_CHECK"

// TestMain does what a user does: it asks reap for the folder, and exports the one variable.
func TestMain(m *testing.M) {
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	os.Exit(run(m))
}

func run(m *testing.M) int {
	top, err := os.MkdirTemp("", "reap-envtest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(top) }() // in the system's directory for such
	assets, err := use(filepath.Join(top, "assets"), "-p", "path")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// The collector checks its own graph, and logFile looks for what it finds.
	if err := errors.Join(os.Setenv("KUBEBUILDER_ASSETS", assets), os.Setenv(graphCheck, "1s")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	left, err := runningFrom(assets)
	for _, p := range left {
		err = errors.Join(err, fmt.Errorf("a test has left %s running", p), p.end())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// use runs `reap envtest use`, and returns what it prints.
func use(args ...string) (string, error) {
	if os.Getenv(binary) == "" {
		return "", fmt.Errorf("$%s has to name the program: run scripts/test tests/envtest", binary)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(os.Getenv(binary), append([]string{"envtest", "use"}, args...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("reap envtest use: %w: %s", err, &stderr)
	}
	return string(out), nil
}

// within bounds how long something may make no progress at all: machines under load are slow.
const within = 3 * time.Minute

// patient is for starts and stops, which take two seconds on a machine without other work.
func patient(env *envtest.Environment) *envtest.Environment {
	env.ControlPlaneStartTimeout, env.ControlPlaneStopTimeout = within, within
	return env
}

// started is a running environment, whose programs' output is shown if the test fails.
type started struct {
	client.Client
	of     *envtest.Environment
	config *rest.Config
}

// start starts an environment, and stops it when the test has ended.
func start(t *testing.T, env *envtest.Environment) started {
	t.Helper()
	config, err := patient(logged(t, env)).Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	return started{Client: newClient(t, config), of: env, config: config}
}

// logged has the output of an environment's programs go to files, unless the test itself reads it.
func logged(t *testing.T, env *envtest.Environment) *envtest.Environment {
	t.Helper()
	if server := env.ControlPlane.GetAPIServer(); server.Err == nil {
		server.Err = logFile(t, "kube-apiserver")
	}
	if env.ControlPlane.Etcd == nil {
		env.ControlPlane.Etcd = &envtest.Etcd{Err: logFile(t, "etcd")}
	}
	return env
}

func newClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// logFile returns a file for a program's output. That must hold nothing bad; the last of it is shown if the test fails.
func logFile(t *testing.T, program string) io.Writer {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), program))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		raw, err := os.ReadFile(f.Name())
		if wrong := checkLog(raw); wrong != nil {
			t.Errorf("%s: %v", program, wrong)
		}
		if t.Failed() {
			t.Logf("the last lines of %s's output:\n%s(%v)", program, tail(string(raw), 40), err)
		}
		_ = f.Close() // it has been read
	})
	return f
}

// create creates an object, and returns it as the server has it.
func create[T client.Object](t *testing.T, c client.Client, object T) T {
	t.Helper()
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// gone waits until the object itself, by its UID, is gone.
func gone(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	eventually(t, fmt.Sprintf("%T %s to be gone", object, client.ObjectKeyFromObject(object)), func(ctx context.Context) (bool, error) {
		now := object.DeepCopyObject().(client.Object)
		err := c.Get(ctx, client.ObjectKeyFromObject(object), now)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return err == nil && now.GetUID() != object.GetUID(), nil
	})
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, holds wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, within, true, holds); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}
