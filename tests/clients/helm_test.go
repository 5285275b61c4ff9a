package clients

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// helmer runs Helm in a namespace, with the chart of testdata.
type helmer struct {
	*cluster
	ns   string
	home string
}

func newHelmer(t *testing.T) helmer {
	t.Helper()
	c := shared(t)
	return helmer{c, c.namespace(t), t.TempDir()}
}

// try runs Helm, and returns what it prints.
func (h helmer) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "helm"), append(args, "--namespace", h.ns, "--kubeconfig", h.server.Kubeconfig)...)
	cmd.Env = append(os.Environ(), "HOME="+h.home)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (h helmer) helm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := h.try(t, args...)
	if err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// install installs the chart as the release "r" and waits until its pods are ready, and its hook has completed.
func (h helmer) install(t *testing.T) {
	t.Helper()
	h.helm(t, "install", "r", "testdata/shop", "--wait", "--timeout", patience.String())
	h.mustHavePods(t, 3, corev1.PodRunning)
	h.mustHave(t, "red")
}

// pods returns those of the release's Deployment, without those of its hooks.
func (h helmer) pods(t *testing.T) []corev1.Pod {
	t.Helper()
	all, err := h.CoreV1().Pods(h.ns).List(t.Context(), metav1.ListOptions{LabelSelector: "app=r"})
	must(t, err)
	return all.Items
}

func (h helmer) mustHavePods(t *testing.T, n int, phase corev1.PodPhase) []corev1.Pod {
	t.Helper()
	return mustBe(t, h.pods(t), n, phase)
}

// mustHave checks the release's ConfigMaps, besides those that are always there.
func (h helmer) mustHave(t *testing.T, color string, further ...string) {
	t.Helper()
	config, err := h.CoreV1().ConfigMaps(h.ns).Get(t.Context(), "r-config", metav1.GetOptions{})
	must(t, err)
	if got := config.Data["color"]; got != color {
		t.Errorf("the color is %s and not %s", got, color)
	}
	h.mustHaveMaps(t, append([]string{"r-config", "r-kept"}, further...)...)
}

func (h helmer) mustHaveMaps(t *testing.T, want ...string) {
	t.Helper()
	maps, err := h.CoreV1().ConfigMaps(h.ns).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	var got []string
	for _, m := range maps.Items {
		if strings.HasPrefix(m.Name, "r-") {
			got = append(got, m.Name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("there are the ConfigMaps %q and not %q", got, want)
	}
}

// status is what Helm has recorded of the release, by revision.
func (h helmer) status(t *testing.T) (all []string) {
	t.Helper()
	var history []struct {
		Status string `json:"status"`
	}
	must(t, json.Unmarshal([]byte(h.helm(t, "history", "r", "-o", "json")), &history))
	for _, r := range history {
		all = append(all, r.Status)
	}
	return all
}

// mustBeUninstalled checks what has gone with the release, and what has stayed without it.
func (h helmer) mustBeUninstalled(t *testing.T) {
	t.Helper()
	if out, err := h.try(t, "status", "r"); err == nil || !strings.Contains(out, "release: not found") {
		t.Errorf("the release is not gone: %v\n%s", err, out)
	}
	if _, err := h.AppsV1().Deployments(h.ns).Get(t.Context(), "r-web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Deployment is there: %v", err)
	}
	if _, err := h.CoreV1().Services(h.ns).Get(t.Context(), "r-web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Service is there: %v", err)
	}
	h.mustHaveMaps(t, "r-kept")
	jobs, err := h.BatchV1().Jobs(h.ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(jobs.Items) != 0 {
		t.Errorf("%d Jobs are left of the hooks (%v)", len(jobs.Items), err)
	}
	// Helm never deletes the definitions of a chart's crds.
	if _, err := h.Discovery().RESTClient().Get().AbsPath("/apis/shop.example.com/v1/namespaces/", h.ns, "books").DoRaw(t.Context()); err != nil {
		t.Errorf("the chart's custom resources are not served any more: %v", err)
	}
	_, err = h.Discovery().RESTClient().Get().AbsPath("/apis/shop.example.com/v1/namespaces/", h.ns, "books/r-novel").DoRaw(t.Context())
	if !apierrors.IsNotFound(err) {
		t.Errorf("the release's custom resource is there: %v", err)
	}
}

func (h helmer) replicaSets(t *testing.T) []appsv1.ReplicaSet {
	t.Helper()
	sets, err := h.AppsV1().ReplicaSets(h.ns).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	return sets.Items
}

func TestHelmUpgradesAndRollsBack(t *testing.T) {
	t.Parallel()
	h := newHelmer(t)
	h.install(t)

	h.helm(t, "upgrade", "r", "testdata/shop", "--wait", "--timeout", patience.String(), "--set", "color=blue,extra=true,replicas=5")
	h.mustHave(t, "blue", "r-extra")
	eventually(t, "the five new pods alone", func(context.Context) (bool, error) {
		all := h.pods(t)
		for _, p := range all {
			if p.Annotations["color"] != "blue" || p.Status.Phase != corev1.PodRunning {
				return false, nil
			}
		}
		return len(all) == 5, nil
	})

	// An object that the new revision does not have is deleted.
	h.helm(t, "rollback", "r", "1", "--wait", "--timeout", patience.String())
	h.mustHave(t, "red")
	eventually(t, "the three pods of the first revision alone", func(context.Context) (bool, error) {
		all := h.pods(t)
		for _, p := range all {
			if p.Annotations["color"] != "red" || p.Status.Phase != corev1.PodRunning {
				return false, nil
			}
		}
		return len(all) == 3, nil
	})
	if got, want := h.status(t), []string{"superseded", "superseded", "deployed"}; !slices.Equal(got, want) {
		t.Errorf("the revisions are %q and not %q", got, want)
	}
	h.helm(t, "uninstall", "r", "--wait", "--timeout", patience.String()) // in the background
	h.mustBeUninstalled(t)
	eventually(t, "the Deployment's dependents to be gone", func(context.Context) (bool, error) {
		return len(h.replicaSets(t)) == 0 && len(h.pods(t)) == 0, nil
	})
}

// TestHelmUninstallsInTheForeground: when the command returns, not even a pod is left.
func TestHelmUninstallsInTheForeground(t *testing.T) {
	t.Parallel()
	h := newHelmer(t)
	h.install(t)
	ends := h.watchEndings(t, h.ns)
	h.helm(t, "uninstall", "r", "--cascade", "foreground", "--wait", "--timeout", patience.String())
	h.mustHavePods(t, 0, "")
	if sets := h.replicaSets(t); len(sets) != 0 {
		t.Errorf("%d ReplicaSets are left", len(sets))
	}
	h.mustBeUninstalled(t)
	if seen := ends(3); len(seen.early) > 0 {
		t.Errorf("%q ended before their grace period was over", seen.early)
	}
}

func TestHelmUninstallsAndOrphans(t *testing.T) {
	t.Parallel()
	h := newHelmer(t)
	h.install(t)
	h.helm(t, "uninstall", "r", "--cascade", "orphan", "--wait", "--timeout", patience.String())
	h.mustBeUninstalled(t)
	sets := h.replicaSets(t)
	if len(sets) != 1 || len(sets[0].OwnerReferences) != 0 || sets[0].DeletionTimestamp != nil {
		t.Fatalf("the orphaned ReplicaSets are %+v", sets)
	}
	orphans := h.mustHavePods(t, 3, corev1.PodRunning)

	// The next release adopts them.
	h.helm(t, "install", "r", "testdata/shop", "--wait", "--timeout", patience.String())
	again := h.replicaSets(t)
	if len(again) != 1 || again[0].UID != sets[0].UID || len(again[0].OwnerReferences) != 1 {
		t.Errorf("the ReplicaSets of the next release are %+v", again)
	}
	for _, p := range h.mustHavePods(t, 3, corev1.PodRunning) {
		if !slices.ContainsFunc(orphans, func(o corev1.Pod) bool { return o.UID == p.UID }) {
			t.Errorf("pod %s is new", p.Name)
		}
	}
}
