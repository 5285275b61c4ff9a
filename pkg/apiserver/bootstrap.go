package apiserver

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
	"k8s.io/klog/v2"
	schedulingv1 "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// bootstrapHook replaces one of the post-start hooks with which kube-apiserver writes objects that every cluster has. They
// begin with a pause of one second, and no server is ready before they end.
type bootstrapHook struct {
	name string
	// resources are those that write needs. If one is not served, kube-apiserver's hook stays.
	resources []schema.GroupVersionResource
	// write writes the objects without a pause. It may fail for any reason.
	write func(context.Context, kubernetes.Interface) error
	// upstream is kube-apiserver's hook, which tries for 30 seconds.
	upstream genericapiserver.PostStartHookFunc
}

func bootstrapHooks() ([]bootstrapHook, error) {
	roles, writeRoles, err := rbacrest.RESTStorageProvider{}.PostStartHook()
	if err != nil {
		return nil, err
	}
	classes, writeClasses, err := schedulingrest.RESTStorageProvider{}.PostStartHook()
	if err != nil {
		return nil, err
	}
	rbac := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	scheduling := schema.GroupVersion{Group: "scheduling.k8s.io", Version: "v1"}
	return []bootstrapHook{
		{
			name: roles, write: ensureRoles, upstream: writeRoles,
			resources: []schema.GroupVersionResource{
				rbac.WithResource("clusterroles"), rbac.WithResource("clusterrolebindings"),
				rbac.WithResource("roles"), rbac.WithResource("rolebindings"),
			},
		},
		{
			name: classes, write: ensurePriorityClasses, upstream: writeClasses,
			resources: []schema.GroupVersionResource{scheduling.WithResource("priorityclasses")},
		},
	}, nil
}

// takeOver turns kube-apiserver's hooks off for which it returns others. The caller adds these to the server.
func takeOver(c *genericapiserver.Config, served serverstorage.APIResourceConfigSource) ([]bootstrapHook, error) {
	all, err := bootstrapHooks()
	if err != nil {
		return nil, err
	}
	// Other servers' configurations share the set, and one of them gets the hooks.
	off := sets.NewString(c.DisabledPostStartHooks.UnsortedList()...)
	var taken []bootstrapHook
	for _, h := range all {
		if off.Has(h.name) || !h.possible(served) {
			continue
		}
		off.Insert(h.name)
		taken = append(taken, h)
	}
	c.DisabledPostStartHooks = off
	return taken, nil
}

func (h bootstrapHook) possible(served serverstorage.APIResourceConfigSource) bool {
	for _, r := range h.resources {
		if !served.ResourceEnabled(r) {
			return false
		}
	}
	return true
}

// hook returns the function to add. config returns a configuration for a user who may do everything; it is called when
// the server runs.
func (h bootstrapHook) hook(config func() *rest.Config) genericapiserver.PostStartHookFunc {
	return func(ctx genericapiserver.PostStartHookContext) error {
		own := config()
		own.ContentType = runtime.ContentTypeProtobuf
		client, err := kubernetes.NewForConfig(own)
		if err == nil {
			err = h.write(ctx, client)
		}
		if err == nil || ctx.Err() != nil {
			return nil // a server that stops needs nothing more, and upstream's hook would go on trying for half a minute
		}
		klog.V(1).InfoS("left to kube-apiserver's own hook", "hook", h.name, "err", err)
		return h.upstream(ctx)
	}
}

// writesAtOnce is how many objects are written at the same time: a datastore puts what comes together into one transaction.
const writesAtOnce = 16

// ensureRoles writes the roles and bindings of the bootstrap policy as kube-apiserver's hook does, with the same library.
// It fails if any of them needs more than that.
func ensureRoles(ctx context.Context, client kubernetes.Interface) error {
	if err := checkNothingToMigrate(ctx, client); err != nil {
		return err
	}
	rbac, namespaces := client.RbacV1(), client.CoreV1().Namespaces()
	all, ctx := errgroup.WithContext(ctx) // what remains is left out after an error, and when the server stops
	all.SetLimit(writesAtOnce)
	write := func(f func() error) {
		all.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err() // the library's own calls know no end
			}
			return f()
		})
	}
	ensureRole := func(role reconciliation.RuleOwner, modifier reconciliation.RuleOwnerModifier) {
		write(func() error {
			o := reconciliation.ReconcileRoleOptions{Role: role, Client: modifier, Confirm: true}
			result, err := o.Run()
			if err != nil {
				return err
			}
			return checkNotProtected(result.Protected, result.Operation)
		})
	}
	ensureBinding := func(binding reconciliation.RoleBinding, modifier reconciliation.RoleBindingModifier) {
		write(func() error {
			o := reconciliation.ReconcileRoleBindingOptions{RoleBinding: binding, Client: modifier, Confirm: true}
			result, err := o.Run()
			if err != nil {
				return err
			}
			return checkNotProtected(result.Protected, result.Operation)
		})
	}
	for _, r := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		ensureRole(reconciliation.ClusterRoleRuleOwner{ClusterRole: &r}, reconciliation.ClusterRoleModifier{Client: rbac.ClusterRoles()})
	}
	for _, b := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		ensureBinding(reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: &b}, reconciliation.ClusterRoleBindingClientAdapter{Client: rbac.ClusterRoleBindings()})
	}
	for _, roles := range bootstrappolicy.NamespaceRoles() {
		for _, r := range roles {
			ensureRole(reconciliation.RoleRuleOwner{Role: &r}, reconciliation.RoleModifier{Client: rbac, NamespaceClient: namespaces})
		}
	}
	for _, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for _, b := range bindings {
			ensureBinding(reconciliation.RoleBindingAdapter{RoleBinding: &b}, reconciliation.RoleBindingClientAdapter{Client: rbac, NamespaceClient: namespaces})
		}
	}
	return all.Wait()
}

// checkNothingToMigrate fails if the store is one of an old Kubernetes, whose roles kube-apiserver copies first.
func checkNothingToMigrate(ctx context.Context, client kubernetes.Interface) error {
	roles, bindings := client.RbacV1().ClusterRoles(), client.RbacV1().ClusterRoleBindings()
	getRole := func(name string) error { _, err := roles.Get(ctx, name, metav1.GetOptions{}); return err }
	getBinding := func(name string) error { _, err := bindings.Get(ctx, name, metav1.GetOptions{}); return err }
	for older, newer := range bootstrappolicy.ClusterRolesToAggregate() {
		if err := checkNotOlder(getRole, older, newer); err != nil {
			return err
		}
	}
	for older, newer := range bootstrappolicy.ClusterRoleBindingsToSplit() {
		if err := checkNotOlder(getBinding, older, newer.Name); err != nil {
			return err
		}
	}
	return nil
}

func checkNotOlder(get func(name string) error, older, newer string) error {
	if err := get(newer); !apierrors.IsNotFound(err) {
		return err // nil if it is there
	}
	switch err := get(older); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("there is %s, but no %s", older, newer)
}

// errProtected is for roles that kube-apiserver warns about: somebody keeps them as they are.
var errProtected = errors.New("a role or binding differs from the policy and is protected")

func checkNotProtected(protected bool, operation reconciliation.ReconcileOperation) error {
	if protected && operation != reconciliation.ReconcileNone {
		return errProtected
	}
	return nil
}

// ensurePriorityClasses writes the priority classes of the system unless they are there.
func ensurePriorityClasses(ctx context.Context, client kubernetes.Interface) error {
	classes := client.SchedulingV1().PriorityClasses()
	for _, c := range schedulingv1.SystemPriorityClasses() {
		_, err := classes.Get(ctx, c.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = classes.Create(ctx, c, metav1.CreateOptions{})
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}
