//go:build releasetest

package envtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// untilRest is how long the programs need, after a start, to give back the memory that only the start took.
const untilRest = 25 * time.Second

// TestCostsBesideTheOriginals measures reap's programs and those they stand in for, in turns. docs/testing-controllers.md has
// the figures. reap's have to start no later than the originals, and to take less memory, with all they do besides.
func TestCostsBesideTheOriginals(t *testing.T) {
	t.Setenv(graphCheck, "0s") // users' collectors do not
	reap, originals := os.Getenv("KUBEBUILDER_ASSETS"), buildOriginals(t)
	var rows [2]costs
	for range 5 {
		for i, folder := range []string{originals, reap} {
			rows[i].start(t, folder)
		}
	}
	for i, folder := range []string{originals, reap} {
		rows[i].rest(t, folder)
		rows[i].ten(t, folder)
	}
	theirs, ours := rows[0], rows[1]
	t.Attr("power", fmt.Sprintf("originals: %s | reap: %s", theirs, ours))
	if median(ours.starts) > median(theirs.starts) {
		t.Errorf("reap starts in %.2f s, the originals in %.2f s", median(ours.starts), median(theirs.starts))
	}
	if ours.both() > theirs.both() {
		t.Errorf("reap takes %.0f MiB, the originals %.0f", ours.both(), theirs.both())
	}
}

// costs are what a pair of programs costs, in seconds and MiB.
type costs struct {
	starts, stops    []float64
	memory           map[string]float64 // at rest, by program
	tenStart, tenMiB float64
}

func (c costs) both() float64 { return c.memory["etcd"] + c.memory["kube-apiserver"] }

func (c costs) String() string {
	return fmt.Sprintf("start %.2f s, stop %.2f s; at rest etcd %.0f MiB, kube-apiserver %.0f MiB, both %.0f MiB; ten at once start in %.1f s, %.0f MiB each",
		median(c.starts), median(c.stops), c.memory["etcd"], c.memory["kube-apiserver"], c.both(), c.tenStart, c.tenMiB)
}

func median(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }

// from returns an environment of a folder's programs, whatever $KUBEBUILDER_ASSETS names.
func from(folder string) *envtest.Environment {
	return patient(&envtest.Environment{ControlPlane: envtest.ControlPlane{
		APIServer:   &envtest.APIServer{Path: filepath.Join(folder, "kube-apiserver")},
		Etcd:        &envtest.Etcd{Path: filepath.Join(folder, "etcd")},
		KubectlPath: filepath.Join(folder, "kubectl"),
	}})
}

// start measures a start and a stop.
func (c *costs) start(t *testing.T, folder string) {
	t.Helper()
	env := from(folder)
	began := time.Now()
	if _, err := env.Start(); err != nil {
		t.Fatal(err)
	}
	c.starts = append(c.starts, time.Since(began).Seconds())
	began = time.Now()
	if err := env.Stop(); err != nil {
		t.Fatal(err)
	}
	c.stops = append(c.stops, time.Since(began).Seconds())
}

// rest measures the memory of an environment that nobody uses.
func (c *costs) rest(t *testing.T, folder string) {
	t.Helper()
	env := from(folder)
	if _, err := env.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(untilRest)
	memory, err := memoryOf(env)
	if stopErr := env.Stop(); err != nil || stopErr != nil {
		t.Fatal(err, stopErr)
	}
	c.memory = memory
}

// ten measures ten environments that start at once, and their memory at rest.
func (c *costs) ten(t *testing.T, folder string) {
	t.Helper()
	var envs [many]*envtest.Environment
	for i := range envs {
		envs[i] = from(folder)
	}
	longest, err := atOnce(many, func(i int) error { _, err := envs[i].Start(); return err })
	c.tenStart = longest.Seconds()
	if err != nil {
		t.Error(err)
	} else {
		time.Sleep(untilRest)
		for _, env := range envs {
			memory, err := memoryOf(env)
			if err != nil {
				t.Error(err)
			}
			c.tenMiB += (memory["etcd"] + memory["kube-apiserver"]) / many
		}
	}
	if _, err := atOnce(many, func(i int) error { return envs[i].Stop() }); err != nil {
		t.Fatal(err)
	}
}

// buildOriginals builds etcd and kube-apiserver from the modules that reap is built from, and returns their folder.
func buildOriginals(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for name, pkg := range map[string]string{"etcd": "go.etcd.io/etcd/server/v3", "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver"} {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(folder, name), pkg)
		cmd.Dir = filepath.Join("..", "..")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v: %s", name, err, out)
		}
	}
	// envtest looks for kubectl and does not start it.
	if err := os.Symlink(os.Getenv(binary), filepath.Join(folder, "kubectl")); err != nil {
		t.Fatal(err)
	}
	return folder
}
