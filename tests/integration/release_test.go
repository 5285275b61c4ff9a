package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/reap-dev/reap/pkg/gc/report"
)

// TestReleaseTakesAStuckFinalizerOff: the collector's own, another one only by its name, and nothing without a yes.
func TestReleaseTakesAStuckFinalizerOff(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "released")
	o := s.create(t, configMaps, ns, "owner")
	d := s.createHeld(t, configMaps, ns, "dependent", blocking(o))
	s.barrier(t, configMaps, ns)
	refused := func(code int, says string, args ...string) {
		t.Helper()
		before, err := s.dyn.Resource(configMaps.gvr).Namespace(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		out, errs, got := s.run(t, append([]string{"release", "-n", ns}, args...)...)
		if got != code || out != "" || !strings.Contains(errs, says) {
			t.Errorf("reap release %q: exit code %d, %s%s", args, got, out, errs)
		}
		after, err := s.dyn.Resource(configMaps.gvr).Namespace(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range before.Items {
			if a, b := before.Items[i], after.Items[i]; a.GetResourceVersion() != b.GetResourceVersion() {
				t.Errorf("reap release %q has changed %s", args, a.GetName())
			}
		}
	}
	refused(1, "has not been deleted", "cm/owner", "--yes")
	s.deleteAs(t, configMaps, o, foreground)
	s.awaitDeleting(t, configMaps, d)
	refused(2, "--yes", "cm/owner")
	refused(2, "TYPE/NAME", "--yes")
	refused(2, "one object", "cm/owner", "cm/dependent", "--yes")
	refused(2, "did you mean json", "cm/owner", "--yes", "-o", "jsn")
	refused(1, "resource type", "nothings/owner", "--yes")
	refused(1, `"nobody"`, "cm/nobody", "--yes")
	refused(1, "did you mean \"foregroundDeletion\"", "cm/owner", "--yes", "--finalizer", "foregroundDeletio")
	refused(1, hold, "cm/dependent", "--yes")

	var r report.Release
	out, errs, code := s.run(t, "release", "configmaps/owner", "-n", ns, "--yes", "-o", "json")
	if code != 0 || !strings.Contains(errs, s.URL) || !strings.Contains(errs, "dependent -n "+ns) {
		t.Fatalf("exit code %d, %s", code, errs)
	}
	fromJSON(t, out, &r)
	if r.Version != report.ReleaseVersion || !r.Released || r.Finalizer != metav1.FinalizerDeleteDependents || r.Dependents == nil || r.Dependents.Count != 1 || len(r.Left) != 0 {
		t.Errorf("%+v", r)
	}
	s.awaitGone(t, configMaps, o)
	if there, err := s.exists(t.Context(), configMaps, d); err != nil || !there {
		t.Errorf("the dependent is there: %v, %v", there, err)
	}
	if out, errs, code := s.run(t, "release", "configmaps/dependent", "-n", ns, "-y", "--finalizer", hold); code != 0 || !strings.Contains(out, "nothing holds it") {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	s.awaitGone(t, configMaps, d)
}

// TestReleaseTakesAFinalizerOffASpec: that of a namespace is in spec.finalizers, and goes through the namespace's subresource finalize.
func TestReleaseTakesAFinalizerOffASpec(t *testing.T) {
	s := shared(t)
	namespaces := kind{corev1.SchemeGroupVersion.WithResource("namespaces"), "Namespace"}
	ns, err := s.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "specced-", Labels: map[string]string{ofTests: ""}},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{hold}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.kube.CoreV1().Namespaces().Delete(t.Context(), ns.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the namespace controller to take its own finalizer off", func(ctx context.Context) (bool, any) {
		now, err := s.kube.CoreV1().Namespaces().Get(ctx, ns.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return len(now.Spec.Finalizers) == 1 && now.Spec.Finalizers[0] == hold, fmt.Sprint(now.Spec.Finalizers)
	})
	if out, errs, code := s.run(t, "release", "namespaces/"+ns.Name, "--finalizer", hold, "--yes"); code != 0 {
		t.Fatalf("exit code %d, %s%s", code, out, errs)
	}
	o := &unstructured.Unstructured{}
	o.SetName(ns.Name)
	o.SetUID(ns.UID)
	s.awaitGone(t, namespaces, o)
}

// TestNamespaceIsExplainedAndFreed: among much that only waits, and the command that is shown frees it.
func TestNamespaceIsExplainedAndFreed(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "held")
	o := s.create(t, configMaps, ns, "owner")
	for _, name := range []string{"one", "two"} {
		d := s.create(t, configMaps, ns, name, blocking(o))
		s.createHeld(t, secrets, ns, "leaf-of-"+name, blocking(d))
	}
	s.barrier(t, configMaps, ns)
	s.deleteAs(t, configMaps, o, foreground)
	if err := s.kube.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var w report.Why
	await(t, "the namespace to be explained", func(context.Context) (bool, any) {
		w = s.why(t, "namespaces/"+ns)
		c := w.Contents
		if c == nil || len(c.Conditions) == 0 || c.HeldByCount != 2 {
			return false, w
		}
		for _, h := range c.HeldBy {
			if h.Object.Resource != "secrets" || len(h.Finalizers) != 1 || h.Finalizers[0] != hold {
				return false, w
			}
		}
		return true, nil
	})
	if text := s.must(t, "why", "ns/"+ns); !strings.Contains(text, "secrets/leaf-of-one -n "+ns) || !strings.Contains(text, "TO FREE IT") {
		t.Errorf("reap why says\n%s", text)
	}
	if len(w.Commands) != 2 {
		t.Fatalf("%+v", w.Commands)
	}
	for _, c := range w.Commands {
		words := strings.Fields(strings.TrimSuffix(strings.TrimPrefix(c.Command, "reap "), " --data-dir "+s.dir))
		if _, errs, code := s.run(t, append(words, "--yes")...); code != 0 {
			t.Errorf("%s: exit code %d, %s", c.Command, code, errs)
		}
	}
	s.awaitNamespaceGone(t, ns)
}

// TestCascadeIsShown: what has been deleted, what is left and what holds it, and where it began.
func TestCascadeIsShown(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "cascading")
	o := s.create(t, configMaps, ns, "root")
	inner := s.create(t, configMaps, ns, "inner", owner(o))
	s.createMany(t, 20, configMaps, ns, "dependent", owner(inner))
	held := s.createHeld(t, secrets, ns, "held", owner(inner))
	s.barrier(t, configMaps, ns)
	s.awaitKnown(t, secrets, held)
	s.delete(t, configMaps, o)
	find := func() *report.Cascade {
		for _, c := range s.status(t).Cascades {
			if c.Root.UID == o.GetUID() {
				return &c
			}
		}
		return nil
	}
	await(t, "the cascade to be held", func(context.Context) (bool, any) {
		c := find()
		return c != nil && c.Deleted == 22 && c.Left == 1 && c.HeldByCount == 1 && c.HeldBy[0].Object.UID == held.GetUID() && c.Root.Name == "root", c
	})
	if text := s.must(t, "status"); !strings.Contains(text, "CASCADE") || !strings.Contains(text, "secrets/held -n "+ns) {
		t.Errorf("reap status says\n%s", text)
	}
	s.release(t, secrets, held)
	await(t, "the cascade to end", func(context.Context) (bool, any) {
		c := find()
		return c == nil || c.Ended(), c
	})
}

// TestStatusIsWatched: until Ctrl-C, as one line of JSON after the other.
func TestStatusIsWatched(t *testing.T) {
	s := shared(t)
	cmd := reap([]string{"HOME=" + t.TempDir()}, "status", "--watch", "--interval", "100ms", "-o", "json", "--data-dir", s.dir, "--config=")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	var last report.Status
	for range 3 {
		if !lines.Scan() {
			t.Fatal("the command has ended")
		}
		var r report.Status
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil || !r.Running || r.Version != report.StatusVersion || r.Now.Equal(last.Now) {
			t.Errorf("%v in %s", err, lines.Bytes())
		}
		last = r
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("after Ctrl-C: %v, want exit code 130", err)
	}
	for _, args := range [][]string{{"--interval", "1s"}, {"--watch", "--interval", "1ms"}} {
		if _, errs, code := s.run(t, append([]string{"status"}, args...)...); code != 2 || !strings.Contains(errs, "--interval") {
			t.Errorf("reap status %q: exit code %d, %s", args, code, errs)
		}
	}
}
