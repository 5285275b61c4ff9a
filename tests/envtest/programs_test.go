package envtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

var oneGi = resource.MustParse("1Gi")

// processes returns the processes whose command line names a directory.
func processes(t *testing.T, dir string) (found []string) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err == nil && bytes.Contains(raw, []byte(dir)) { // else it has ended
			found = append(found, strings.ReplaceAll(string(raw), "\x00", " "))
		}
	}
	return found
}

// TestStopLeavesNothing looks for processes and files; the same environment then starts again.
func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	env := patient(&envtest.Environment{})
	for range 2 {
		if _, err := env.Start(); err != nil {
			t.Fatal(err)
		}
		dirs := []string{env.ControlPlane.APIServer.CertDir, env.ControlPlane.Etcd.DataDir}
		for _, dir := range dirs {
			if found := processes(t, dir); len(found) == 0 {
				t.Errorf("no process uses %s", dir)
			}
		}
		if err := env.Stop(); err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			if found := processes(t, dir); len(found) != 0 {
				t.Errorf("still running: %q", found)
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("%s is still there (%v)", dir, err)
			}
		}
	}
}

// TestKubeAPIServerEndsAfterItsEtcd: envtest stops it first, but a test's own code may not.
func TestKubeAPIServerEndsAfterItsEtcd(t *testing.T) {
	t.Parallel()
	env := start(t, &envtest.Environment{}).of
	if err := env.ControlPlane.Etcd.Stop(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := env.ControlPlane.APIServer.Stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > endsWithin {
		t.Errorf("kube-apiserver has taken %s to end", took)
	}
}

// TestEnvironmentsSideBySide: what one holds the other does not.
func TestEnvironmentsSideBySide(t *testing.T) {
	t.Parallel()
	const n = 3
	var all sync.WaitGroup
	for i := range n {
		env := start(t, &envtest.Environment{})
		all.Go(func() {
			if err := env.Create(t.Context(), configMap("default", fmt.Sprintf("of-%d", i))); err != nil {
				t.Error(err)
			}
			// Those that run meanwhile do not see it.
			maps := &corev1.ConfigMapList{}
			if err := env.List(t.Context(), maps, client.InNamespace("default")); err != nil || len(maps.Items) != 1 {
				t.Errorf("the environment %d holds %d ConfigMaps (%v)", i, len(maps.Items), err)
			}
		})
	}
	all.Wait()
}

func TestExistingCluster(t *testing.T) {
	t.Parallel()
	first := start(t, &envtest.Environment{})
	object := create(t, first, configMap("default", "kept"))
	second := &envtest.Environment{
		UseExistingCluster: new(true), Config: first.config,
		CRDDirectoryPaths: []string{"../../examples/operator/config/crd.yaml"}, ErrorIfCRDPathMissing: true,
	}
	config, err := second.Start()
	if err != nil {
		t.Fatal(err)
	}
	create(t, newClient(t, config), site("shop"))
	if err := second.Stop(); err != nil {
		t.Error(err)
	}
	if err := first.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Errorf("after another environment has used the cluster: %v", err)
	}
}

// TestUsers: users with certificates of envtest's own authority have the rights that the tests give them, with a client and
// with the kubectl of the folder.
func TestUsers(t *testing.T) {
	t.Parallel()
	env := start(t, &envtest.Environment{})
	create(t, env, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list"}}},
	})
	create(t, env, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "readers"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "readers"}},
	})
	create(t, env, configMap("default", "public"))
	user, err := env.of.AddUser(envtest.User{Name: "ada", Groups: []string{"readers"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ada := newClient(t, user.Config())
	eventually(t, "her role", func(ctx context.Context) (bool, error) {
		err := ada.List(ctx, &corev1.ConfigMapList{})
		if apierrors.IsForbidden(err) { // the API server has not seen it yet
			return false, nil
		}
		return err == nil, err
	})
	if err := ada.Create(t.Context(), configMap("default", "hers")); !apierrors.IsForbidden(err) {
		t.Errorf("a user who may only read creates an object: %v", err)
	}
	kubectl, err := user.Kubectl()
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr, err := kubectl.Run("get", "configmap", "public", "--output=name")
	var out, problems bytes.Buffer
	_, _ = out.ReadFrom(stdout)
	_, _ = problems.ReadFrom(stderr)
	if err != nil || strings.TrimSpace(out.String()) != "configmap/public" {
		t.Errorf("kubectl: %v, %q, %q", err, &out, &problems)
	}
	stranger, err := kubernetes.NewForConfig(rest.AnonymousClientConfig(env.config))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("somebody without a certificate lists objects: %v", err)
	}
}

// TestServiceAccountTokens are signed and accepted with the keys that envtest's command line names.
func TestServiceAccountTokens(t *testing.T) {
	t.Parallel()
	env := start(t, &envtest.Environment{})
	set, err := kubernetes.NewForConfig(env.config)
	if err != nil {
		t.Fatal(err)
	}
	create(t, env, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "robot"}})
	token, err := set.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(env.config)
	config.BearerToken = token.Status.Token
	robot, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review, err := robot.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username != "system:serviceaccount:default:robot" {
		t.Errorf("with the token: %q, %v", review.Status.UserInfo.Username, err)
	}
}

// TestFlagsAndOutput: what tests set on the programs reaches them, and what these print reaches the tests.
func TestFlagsAndOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	policy, audit := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := &envtest.Environment{}
	server := env.ControlPlane.GetAPIServer()
	var out, etcdOut safeBuffer
	server.Err, env.ControlPlane.Etcd = &out, &envtest.Etcd{Err: &etcdOut}
	server.Configure().
		Set("audit-policy-file", policy).
		Set("audit-log-path", audit).
		Append("enable-admission-plugins", "AlwaysPullImages").
		Append("disable-admission-plugins", "LimitRanger").
		Set("max-mutating-requests-inflight", "50").
		Set("service-cluster-ip-range", "10.9.0.0/24").
		Set("v", "1")
	env.ControlPlane.Etcd.Configure().Set("quota-backend-bytes", "100000000")
	running := start(t, env)

	pod := create(t, running, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/none:1"}}},
	})
	if pod.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways {
		t.Errorf("the image is pulled %q: the admission plugin did not run", pod.Spec.Containers[0].ImagePullPolicy)
	}
	service := create(t, running, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	})
	if !strings.HasPrefix(service.Spec.ClusterIP, "10.9.0.") {
		t.Errorf("a Service got the address %q", service.Spec.ClusterIP)
	}
	if raw, err := os.ReadFile(audit); err != nil || !bytes.Contains(raw, []byte(`"name":"one"`)) {
		t.Errorf("the audit log does not name the pod (%v)", err)
	}
	if !strings.Contains(out.String(), "reap is starting as kube-apiserver") || !strings.Contains(out.String(), "level=debug") {
		t.Errorf("kube-apiserver printed %q", out.String())
	}
	if !strings.Contains(etcdOut.String(), "ready to serve client requests") {
		t.Errorf("etcd printed %q", etcdOut.String())
	}
}

// TestUnknownFlagsEndTheStart, and leave no process.
func TestUnknownFlagsEndTheStart(t *testing.T) {
	t.Parallel()
	env := patient(&envtest.Environment{})
	var out safeBuffer
	env.ControlPlane.GetAPIServer().Err = &out
	env.ControlPlane.GetAPIServer().Configure().Set("no-such-flag", "1")
	if _, err := env.Start(); err == nil {
		t.Error("it started")
	}
	if !strings.Contains(out.String(), "kube-apiserver: unknown flag: --no-such-flag\n") {
		t.Errorf("it printed %q", out.String())
	}
	if found := processes(t, env.ControlPlane.Etcd.DataDir); env.ControlPlane.Etcd.DataDir != "" && len(found) > 0 {
		t.Errorf("still running: %q", found)
	}
}

// TestKeptData: an environment with a data directory of the test's finds its objects again.
func TestKeptData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, &envtest.Environment{ControlPlane: envtest.ControlPlane{Etcd: &envtest.Etcd{DataDir: dir}}})
	create(t, first, configMap("default", "kept"))
	if err := first.of.Stop(); err != nil {
		t.Fatal(err)
	}
	second := start(t, &envtest.Environment{ControlPlane: envtest.ControlPlane{Etcd: &envtest.Etcd{DataDir: dir}}})
	if err := second.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "kept"}, &corev1.ConfigMap{}); err != nil {
		t.Error(err)
	}
}

// TestUse: the folder, as the command prints it in each form.
func TestUse(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "it's here")
	line, err := use(dir)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := exec.Command("sh", "-c", line+`printf %s "$KUBEBUILDER_ASSETS"`).Output()
	if err != nil || string(shown) != dir {
		t.Errorf("a shell takes %q from %q (%v)", shown, line, err)
	}
	if path, err := use(dir, "-p", "path"); err != nil || path != dir {
		t.Errorf("-p path: %q, %v", path, err)
	}
	overview, err := use("-p", "overview", dir)
	if err != nil || !strings.HasPrefix(overview, "Version: 1.") || !strings.HasSuffix(overview, "\nPath: "+dir+"\n") {
		t.Errorf("-p overview: %q, %v", overview, err)
	}
	raw, err := use(dir, "-o", "json")
	var made struct {
		Dir      string
		Programs []struct{ Name, Binary string }
	}
	if jsonErr := json.Unmarshal([]byte(raw), &made); err != nil || jsonErr != nil || made.Dir != dir || len(made.Programs) != 3 {
		t.Errorf("-o json: %q, %v, %v", raw, err, jsonErr)
	}
	for name, says := range map[string]string{
		"etcd": "etcd Version: 3.", "kube-apiserver": "Kubernetes v1.", "kubectl": "",
	} {
		args := []string{"--version"}
		if says == "" {
			args, says = []string{"version", "--client"}, "Client Version: v1."
		}
		out, err := exec.Command(filepath.Join(dir, name), args...).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), says) {
			t.Errorf("%s %q: %v, %q", name, args, err, out)
		}
	}
}
