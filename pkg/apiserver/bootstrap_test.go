package apiserver

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/component-helpers/auth/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// wrote counts the requests of a client that change something.
func wrote(client *fake.Clientset) (writes int) {
	for _, a := range client.Actions() {
		if a.GetVerb() != "get" && a.GetVerb() != "list" {
			writes++
		}
	}
	client.ClearActions()
	return writes
}

func TestTheBootstrapPolicyIsWrittenOnce(t *testing.T) {
	client := fake.NewClientset()
	if err := ensureRoles(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	want := len(bootstrappolicy.ClusterRoles()) + len(bootstrappolicy.ControllerRoles())
	roles, err := client.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(roles.Items) != want {
		t.Errorf("%d ClusterRoles, want %d (%v)", len(roles.Items), want, err)
	}
	want = len(bootstrappolicy.ClusterRoleBindings()) + len(bootstrappolicy.ControllerRoleBindings())
	bindings, err := client.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(bindings.Items) != want {
		t.Errorf("%d ClusterRoleBindings, want %d (%v)", len(bindings.Items), want, err)
	}
	for namespace, want := range bootstrappolicy.NamespaceRoles() {
		got, err := client.RbacV1().Roles(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(got.Items) != len(want) {
			t.Errorf("%s has %d Roles, want %d (%v)", namespace, len(got.Items), len(want), err)
		}
	}
	for namespace, want := range bootstrappolicy.NamespaceRoleBindings() {
		got, err := client.RbacV1().RoleBindings(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(got.Items) != len(want) {
			t.Errorf("%s has %d RoleBindings, want %d (%v)", namespace, len(got.Items), len(want), err)
		}
	}
	if wrote(client) == 0 {
		t.Error("it wrote nothing")
	}
	if err := ensureRoles(t.Context(), client); err != nil || wrote(client) != 0 {
		t.Errorf("it writes again what is there (%v)", err)
	}
}

func TestTheBootstrapPolicyIsRepaired(t *testing.T) {
	client := fake.NewClientset()
	if err := ensureRoles(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	role, err := client.RbacV1().ClusterRoles().Get(t.Context(), "system:discovery", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	whole := role.DeepCopy()
	role.Rules = nil
	if _, err := client.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := ensureRoles(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	role, err = client.RbacV1().ClusterRoles().Get(t.Context(), whole.Name, metav1.GetOptions{})
	// Written one by one: the library adds each that is missing.
	if covered, missing := validation.Covers(role.Rules, whole.Rules); err != nil || !covered {
		t.Errorf("these rules are missing: %v (%v)", missing, err)
	}
	// Somebody wants it as it is: kube-apiserver's hook says so in the log.
	role.Rules, role.Annotations = nil, map[string]string{rbacv1.AutoUpdateAnnotationKey: "false"}
	if _, err := client.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := ensureRoles(t.Context(), client); !errors.Is(err, errProtected) {
		t.Errorf("got the error %v", err)
	}
}

func TestRolesOfOldReleasesAreLeftToKubernetes(t *testing.T) {
	older := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "edit"}}
	client := fake.NewClientset(older)
	err := ensureRoles(t.Context(), client)
	if err == nil || !strings.HasPrefix(err.Error(), "there is edit, but no ") || wrote(client) != 0 {
		t.Errorf("got the error %v", err)
	}
}

func TestPriorityClassesAreWrittenOnce(t *testing.T) {
	client := fake.NewClientset()
	if err := ensurePriorityClasses(t.Context(), client); err != nil || wrote(client) != 2 {
		t.Errorf("it does not write two (%v)", err)
	}
	if err := ensurePriorityClasses(t.Context(), client); err != nil || wrote(client) != 0 {
		t.Errorf("it writes again what is there (%v)", err)
	}
}

// refusing answers every request with an error.
type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("refused") }

func TestAFailedBootstrapIsLeftToKubernetes(t *testing.T) {
	for _, writeErr := range []error{nil, apierrors.NewServiceUnavailable("not yet")} {
		upstream := errors.New("kube-apiserver's hook ran")
		h := bootstrapHook{
			write:    func(context.Context, kubernetes.Interface) error { return writeErr },
			upstream: func(genericapiserver.PostStartHookContext) error { return upstream },
		}
		err := h.hook(func() *rest.Config { return &rest.Config{Transport: refusing{}} })(genericapiserver.PostStartHookContext{Context: t.Context()})
		if writeErr == nil && err != nil || writeErr != nil && !errors.Is(err, upstream) {
			t.Errorf("after %v: %v", writeErr, err)
		}
	}
}

// Kubernetes' hooks know no end: they go on for half a minute, and the process would wait for them.
func TestBootstrapOfAServerThatStopsIsNotLeftToKubernetes(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	h := bootstrapHook{
		write: func(ctx context.Context, _ kubernetes.Interface) error {
			stop()
			return ctx.Err()
		},
		upstream: func(genericapiserver.PostStartHookContext) error { return errors.New("kube-apiserver's hook ran") },
	}
	if err := h.hook(func() *rest.Config { return &rest.Config{Transport: refusing{}} })(genericapiserver.PostStartHookContext{Context: ctx}); err != nil {
		t.Error(err)
	}
}

func TestHooksAreTakenOverWhereTheirResourcesAreServed(t *testing.T) {
	const roles, classes = "rbac/bootstrap-roles", "scheduling/bootstrap-system-priority-classes"
	served := func(without ...schema.GroupVersionResource) serverstorage.APIResourceConfigSource {
		c := serverstorage.NewResourceConfig()
		c.EnableVersions(schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}, schema.GroupVersion{Group: "scheduling.k8s.io", Version: "v1"})
		c.DisableResources(without...)
		return c
	}
	roleResource := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	for _, tc := range []struct {
		name   string
		off    []string
		served serverstorage.APIResourceConfigSource
		want   []string
	}{
		{"all", nil, served(), []string{roles, classes}},
		{"a server without RBAC", []string{roles}, served(), []string{classes}},
		{"a resource is not served", nil, served(roleResource), []string{classes}},
	} {
		shared := sets.NewString(tc.off...)
		c := &genericapiserver.Config{DisabledPostStartHooks: shared}
		hooks, err := takeOver(c, tc.served)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, h := range hooks {
			names = append(names, h.name)
		}
		if strings.Join(names, " ") != strings.Join(tc.want, " ") || !c.DisabledPostStartHooks.HasAll(append(tc.off, tc.want...)...) {
			t.Errorf("%s: took over %q, and %q are off", tc.name, names, c.DisabledPostStartHooks.List())
		}
		if len(shared) != len(tc.off) {
			t.Errorf("%s: the hooks are off in other servers too: %q", tc.name, shared.List())
		}
	}
}
