package clients

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/reap-dev/reap/reaptest"
)

// patience bounds every wait; passing tests never get near it.
const patience = 3 * time.Minute

// Packages of the programs, which go.mod lists as tools.
const (
	kwokPackage      = "sigs.k8s.io/kwok/cmd/kwok"
	helmPackage      = "helm.sh/helm/v3/cmd/helm"
	schedulerPackage = "k8s.io/kubernetes/cmd/kube-scheduler"
	managerPackage   = "k8s.io/kubernetes/cmd/kube-controller-manager"
)

var (
	// bin is the directory of the programs. They stay there, so that go links them only when something has changed.
	bin string
	// everybody is the cluster of the tests that neither lose a node nor need a scheduler. Each has its own namespace.
	everybody *cluster
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	err := sideBySide()
	if err == nil {
		err = build()
	}
	if err == nil {
		everybody, err = newCluster(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := everybody.stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	return m.Run()
}

// sideBySide runs more tests at once than there are processors, unless -parallel says how many: they wait for grace periods
// most of the time.
func sideBySide() error {
	if flag.Lookup("test.parallel").Value.String() != strconv.Itoa(runtime.GOMAXPROCS(0)) {
		return nil
	}
	return flag.Set("test.parallel", "12")
}

// build builds the programs from the versions in go.mod.
func build() (err error) {
	if bin, err = filepath.Abs("../../bin/clients"); err != nil {
		return err
	}
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-buildvcs=false", "-o", bin + "/"}, built...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w: %s", strings.Join(built, ", "), err, out)
	}
	return nil
}

// cluster is a server whose nodes kwok simulates.
type cluster struct {
	kubernetes.Interface
	server *reaptest.Server
	log    *os.File // the server's, in dir
	dir    string   // of the stages and the logs
	kwok   *process
}

// newCluster starts a server, and kwok with the node "node" and the stages of docs/kwok.md, with grace periods.
func newCluster(ctx context.Context) (_ *cluster, err error) {
	c := &cluster{}
	defer func() {
		if err != nil {
			_ = c.stop() // err says what went wrong first
		}
	}()
	if c.dir, err = os.MkdirTemp("", "reap-clients-"); err != nil {
		return nil, err
	}
	if c.log, err = os.Create(filepath.Join(c.dir, "server.log")); err != nil {
		return nil, err
	}
	if c.server, err = reaptest.Run(ctx, reaptest.WithArgs("--gc-check=1s"), reaptest.WithLog(c.log)); err != nil {
		return nil, err
	}
	if c.Interface, err = kubernetes.NewForConfig(c.server.Config()); err != nil {
		return nil, err
	}
	if c.kwok, err = c.newKwok(ctx, "--manage-all-nodes"); err != nil {
		return nil, err
	}
	return c, c.addNode(ctx, "node")
}

// newKwok starts kwok for the nodes that a flag of it names.
func (c *cluster) newKwok(ctx context.Context, nodes string) (*process, error) {
	stages, err := stageFiles(ctx, c.dir)
	if err != nil {
		return nil, err
	}
	return launch(c.dir, "kwok", "--kubeconfig", c.server.Kubeconfig, nodes, "--node-lease-duration-seconds=40", "--config", strings.Join(stages, ","))
}

// addNode makes a node and waits until kwok says that it is ready.
func (c *cluster) addNode(ctx context.Context, name string) error {
	if _, err := c.CoreV1().Nodes().Create(ctx, newNode(name), metav1.CreateOptions{}); err != nil {
		return err
	}
	err := wait.PollUntilContextTimeout(ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
		n, err := c.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err == nil && nodeReady(n), nil
	})
	if err != nil {
		return fmt.Errorf("node %s is not ready: %w; kwok's log ends with\n%s", name, err, c.kwok.tail())
	}
	return nil
}

// stop ends both processes, and looks at the server's log.
func (c *cluster) stop() error {
	var errs []error
	if c.kwok != nil {
		errs = append(errs, c.kwok.stop())
	}
	if c.server != nil {
		errs = append(errs, c.server.Stop())
	}
	if c.log != nil {
		raw, err := os.ReadFile(c.log.Name())
		errs = append(errs, err, checkLog(raw), c.log.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}

// shared returns the cluster that is everybody's.
func shared(t *testing.T) *cluster {
	t.Helper()
	everybody.explain(t)
	return everybody
}

// explain shows what the programs have written if the test fails.
func (c *cluster) explain(t *testing.T) {
	t.Helper()
	c.server.Explain(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server's log ends with\n%s\nkwok's log ends with\n%s", tail(c.log.Name()), c.kwok.tail())
		}
	})
}

// stageFiles returns the files that tell kwok how nodes and pods go on: kwok's own, but for the one that ends pods at once.
// That is replaced by the one of docs/kwok.md, which is written to dir.
func stageFiles(ctx context.Context, dir string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok").Output()
	if err != nil {
		return nil, fmt.Errorf("finding kwok's module: %w", err)
	}
	files := []string{"node/fast/node-initialize.yaml", "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml", "pod/fast/pod-ready.yaml", "pod/fast/pod-complete.yaml"}
	for i, f := range files {
		files[i] = filepath.Join(strings.TrimSpace(string(out)), "kustomize", "stage", f)
	}
	stage, err := block(kwokPage, "yaml")
	if err != nil {
		return nil, err
	}
	grace := filepath.Join(dir, "grace.yaml")
	return append(files, grace), os.WriteFile(grace, []byte(stage), 0o600)
}
