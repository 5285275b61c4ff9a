package integration

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestDisabledCollectorDeletesNothingUntilItRunsAgain(t *testing.T) {
	t.Parallel()
	const n = 1000
	s := newServer(t.TempDir())
	enabled := slices.Clone(s.args)
	s.args = append(s.args, "--disable=gc")
	s.start(t)
	if !bytes.Contains(s.logFrom(0), []byte("no collector runs")) {
		t.Error("the log does not say that no collector runs")
	}
	s.mustBeReady(t, "[+]reap-gc (no collector runs in this server (--disable=gc)) ok\n")
	ns, elsewhere := s.namespace(t, "disabled"), s.namespace(t, "elsewhere")
	o := s.create(t, configMaps, ns, "owner")
	s.createMany(t, n, configMaps, ns, "dependent", owner(o))
	s.create(t, configMaps, ns, "kept")
	s.delete(t, configMaps, o)
	s.awaitGone(t, configMaps, o)
	// What the server does by itself after a delete, it has done by the time that another controller
	// has gone through a whole namespace; and its end and another start bring nothing.
	s.deleteNamespace(t, elsewhere)
	if left := s.count(t, configMaps, ns); left != n+1 {
		t.Fatalf("without a collector, %d of %d are left", left, n+1)
	}
	s.stop(t)
	s.restart(t)
	if left := s.count(t, configMaps, ns); left != n+1 {
		t.Fatalf("without a collector, %d of %d are left after a restart", left, n+1)
	}
	s.stop(t)
	from := len(s.logFrom(0))
	s.restart(t, enabled...)
	s.awaitCount(t, 1, configMaps, ns)
	if _, err := s.kube.CoreV1().ConfigMaps(ns).Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if bytes.Contains(s.logFrom(int64(from)), []byte("no collector runs")) {
		t.Error("the log says that no collector runs, and one does")
	}
}

// TestDisabledControllerLeavesItsObjectsAlone leaves its objects alone; the others do their work, and so does it when the server
// runs with it again. The log says which do not run.
func TestDisabledControllerLeavesItsObjectsAlone(t *testing.T) {
	t.Parallel()
	s := newServer(t.TempDir())
	enabled := slices.Clone(s.args)
	s.args = append(s.args, "--disable=deployment,gc")
	s.start(t)
	var log string
	await(t, "the log to say that it is ready", func(context.Context) (bool, any) {
		log = string(s.logFrom(0))
		return strings.Contains(log, "reap is ready"), log
	})
	if !strings.Contains(log, `off="deployment, gc"`) || !strings.Contains(log, "controllers=28") {
		t.Error("the log does not say which controllers run, and which do not")
	}
	if running := strings.Index(log, "controllers are running"); running < 0 || running > strings.Index(log, "reap is ready") {
		t.Error("the server is ready before its controllers run")
	}
	ns := s.namespace(t, "disabled")
	d := s.from(t, deployments, ns, documented[1].manifest)
	// Made later; by the time that it has pods, a Deployment would have a ReplicaSet.
	rs := s.from(t, replicaSets, ns, repset)
	s.awaitOwned(t, 2, pods, ns, rs)
	s.awaitCount(t, 1, replicaSets, ns)
	s.stop(t)
	s.restart(t, enabled...)
	s.awaitCount(t, 2, replicaSets, ns)
	s.awaitCount(t, 2+3, pods, ns)
	s.deleteAs(t, deployments, d, foreground)
	s.awaitGone(t, deployments, d)
	s.awaitCount(t, 2, pods, ns)
}

// Without controllers namespaces get no content and are not deleted.
func TestWithoutControllersNamespacesStay(t *testing.T) {
	t.Parallel()
	s := newServer(t.TempDir())
	enabled := slices.Clone(s.args)
	s.args = append(s.args, "--disable=controllers")
	s.start(t)
	ns, err := s.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "test"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o := s.from(t, deployments, ns.Name, documented[1].manifest)
	if err := s.kube.CoreV1().Namespaces().Delete(t.Context(), ns.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// The collector is none of them.
	s.awaitGone(t, roles, s.create(t, roles, "default", "dependent", nobody(clusterRoles)))
	if sas := s.count(t, accounts, metav1.NamespaceAll); sas != 0 {
		t.Errorf("%d service accounts were made", sas)
	}
	s.awaitCount(t, 0, replicaSets, ns.Name)
	s.mustExist(t, deployments, o)
	s.stop(t)
	s.restart(t, enabled...)
	s.awaitNamespaceGone(t, ns.Name)
}

// The error names the controller and says what to do.
func TestControllerWhoseAPIIsOffFailsTheStart(t *testing.T) {
	t.Parallel()
	off := newServer(t.TempDir(), "--kube-apiserver-arg", "runtime-config=batch/v1=false")
	watchLog(t, off)
	t.Cleanup(off.kill)
	if err := off.begin(); err != nil {
		t.Fatal(err)
	}
	await(t, "the server to give up", func(context.Context) (bool, any) { return !off.running(), "it runs" })
	lines := strings.Split(strings.TrimSpace(string(off.logFrom(0))), "\n")
	last := lines[len(lines)-1]
	for _, says := range []string{"reap: ", "cronjob", "--disable=job,cronjob,ttl-after-finished"} {
		if !strings.Contains(last, says) {
			t.Errorf("the last line does not say %q: %s", says, last)
		}
	}
	if code := off.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	start(t, "--kube-apiserver-arg", "runtime-config=batch/v1=false", "--disable=job,cronjob,ttl-after-finished").mustWork(t)
}

// TestDisabledControllersCostNothingAndBlockNothing: without them admission asks nothing of them either. When they run again,
// they do their work.
func TestDisabledControllersCostNothingAndBlockNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t.TempDir())
	enabled := slices.Clone(s.args)
	s.args = append(s.args, "--disable=endpoints,endpointslice,endpointslicemirroring,disruption,resourcequota,validatingadmissionpolicy-status,"+
		"persistentvolume-binder,pvc-protection,pv-protection,vac-protection,ephemeral-volume,resourceclaim,csrapproving,csrsigning,"+
		"csrcleaner,serviceaccount-token")
	s.start(t)
	ns := s.namespace(t, "disabled")
	svc := s.from(t, services, ns, selecting)
	s.from(t, budgets, ns, budget)
	s.from(t, quotas, ns, quotaOf)
	policy := s.from(t, admissionPolicies, "", mistyped)
	v := s.from(t, volumes, "", fmt.Sprintf(volume, ns))
	c := s.from(t, claims, ns, fmt.Sprintf(claim, ns))
	if f := append(v.GetFinalizers(), c.GetFinalizers()...); len(f) != 0 {
		t.Errorf("made with the finalizers %q", f)
	}
	p := s.from(t, pods, ns, pod)
	s.bind(t, p, s.node(t, "disabled").GetName())
	s.becomeReady(t, p, "10.1.2.3")
	// By the time that another controller has done its work, each of these would have: the quota would refuse, too.
	rs := s.from(t, replicaSets, ns, repset)
	s.awaitOwned(t, 2, pods, ns, rs)
	s.deleteNamespace(t, s.namespace(t, "elsewhere"))
	for _, k := range []kind{endpoints, slicesOf} {
		s.awaitCount(t, 0, k, ns)
	}
	for field, o := range map[string]*unstructured.Unstructured{"observedGeneration": s.read(t, budgets, ns, "test"),
		"hard": s.read(t, quotas, ns, "test"), "typeChecking": s.read(t, admissionPolicies, "", policy.GetName())} {
		if _, written, _ := unstructured.NestedFieldNoCopy(o.Object, "status", field); written {
			t.Errorf("the status of a %s was written: %v", o.GetKind(), o.Object["status"])
		}
	}
	s.awaitPhase(t, claims, c, "Pending")
	s.stop(t)

	s.restart(t, enabled...)
	s.awaitSlice(t, ns, "test", "10.1.2.3")
	s.awaitCount(t, 1, endpoints, ns)
	s.awaitBudget(t, ns, 1, 0)
	s.awaitUsed(t, ns, "pods", 2)
	s.awaitWarned(t, policy.GetName())
	s.awaitPhase(t, claims, c, "Bound")
	s.awaitEnforced(t, ns)
	s.mustBeRefused(t, pods, ns, mounting)
	s.stop(t)

	// A full quota that nobody counts down refuses nothing.
	s.restart(t, append(enabled, "--disable=resourcequota")...)
	s.from(t, pods, ns, mounting)
	s.deleteAs(t, services, svc, foreground)
	s.awaitGone(t, services, svc)
}
