package reaptest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/reap-dev/reap/reaptest"
)

// everything returns all objects of a server but Events, which come late, and what they say, without that by which two of
// the same content differ.
func everything(t *testing.T, s *reaptest.Server) map[string]string {
	t.Helper()
	c := clientOf(t, s)
	lists, err := discovery.ServerPreferredResources(c.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	resources, err := discovery.GroupVersionResources(discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, lists))
	if err != nil {
		t.Fatal(err)
	}
	objects := dynamic.NewForConfigOrDie(s.Config())
	all := map[string]string{}
	for r := range resources {
		if r.Resource == "events" || r.Resource == "componentstatuses" { // the latter are no objects
			continue
		}
		list, err := objects.Resource(r).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatalf("listing %s: %v", r, err)
		}
		for _, o := range list.Items {
			for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
				unstructured.RemoveNestedField(o.Object, "metadata", field)
			}
			delete(o.Object, "status")
			raw, err := yaml.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			all[r.GroupResource().String()+" "+o.GetNamespace()+"/"+o.GetName()] = string(raw)
		}
	}
	return all
}

// mustBeAsBefore compares everything with what there was. A controller makes the rules of aggregated roles, in its own time.
func mustBeAsBefore(t *testing.T, s *reaptest.Server, before map[string]string) {
	t.Helper()
	var wrong map[string]string
	awaitIn(t, "the aggregated roles to be as they were", func() (bool, any) {
		wrong = differences(before, everything(t, s))
		late := 0
		for _, role := range []string{"admin", "edit", "view"} {
			if wrong["clusterroles.rbac.authorization.k8s.io /"+role] != "" {
				late++
			}
		}
		return late == 0 || late < len(wrong), wrong
	})
	for name, what := range wrong {
		t.Errorf("%s %s", name, what)
	}
}

// differences says by name what has become of objects.
func differences(before, now map[string]string) map[string]string {
	wrong := map[string]string{}
	for name, o := range now {
		if was, ok := before[name]; !ok {
			wrong[name] = "is still there"
		} else if was != o {
			wrong[name] = fmt.Sprintf("was\n%s\nand is\n%s", was, o)
		}
	}
	for name := range before {
		if _, ok := now[name]; !ok {
			wrong[name] = "is missing"
		}
	}
	return wrong
}

// begun returns everything once the API server has made what it makes for itself, part of it after the start.
func begun(t *testing.T, s *reaptest.Server) (all map[string]string) {
	t.Helper()
	awaitIn(t, "what the API server makes for itself", func() (bool, any) {
		all = everything(t, s)
		for _, name := range []string{
			"services default/kubernetes", "ipaddresses.networking.k8s.io /10.43.0.1", "servicecidrs.networking.k8s.io /kubernetes",
			"configmaps kube-system/extension-apiserver-authentication",
			"configmaps kube-system/kube-apiserver-legacy-service-account-token-tracking",
		} {
			if all[name] == "" {
				return false, name + " is missing"
			}
		}
		return true, nil
	})
	return all
}

// settled returns everything once controllers have made what they make after the start.
func settled(t *testing.T, s *reaptest.Server) (all map[string]string) {
	t.Helper()
	begun(t, s)
	awaitIn(t, "what controllers make in each namespace", func() (bool, any) {
		all = everything(t, s)
		for _, ns := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
			for _, made := range []string{"serviceaccounts %s/default", "configmaps %s/kube-root-ca.crt"} {
				if name := fmt.Sprintf(made, ns); all[name] == "" {
					return false, name + " is missing"
				}
			}
		}
		for _, role := range []string{"admin", "edit", "view"} {
			if !strings.Contains(all["clusterroles.rbac.authorization.k8s.io /"+role], "deployments") {
				return false, role + " is empty"
			}
		}
		return true, nil
	})
	return all
}

const mix = booksDefinition + `
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: racks.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: racks, singular: rack, kind: Rack, listKind: RackList}
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {url: "https://127.0.0.1:1/"}}
  versions:
  - {name: v1, served: true, storage: true, schema: &any {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v2, served: true, storage: false, schema: *any}
---
{apiVersion: v1, kind: Namespace, metadata: {name: library}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: cellar, finalizers: [example.com/key]}}
---
{apiVersion: example.com/v1, kind: Book, metadata: {name: novel, namespace: library, finalizers: [example.com/archive]}}
---
{apiVersion: example.com/v1, kind: Book, metadata: {name: atlas, namespace: default}}
---
{apiVersion: example.com/v1, kind: Rack, metadata: {name: unreadable, finalizers: [example.com/shelf]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: held, namespace: default, finalizers: [example.com/hold]}}
---
{apiVersion: v1, kind: Secret, metadata: {name: secret, namespace: cellar}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: library}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: librarian, labels: {rbac.authorization.k8s.io/aggregate-to-view: "true"}}
rules: [{apiGroups: [example.com], resources: [books], verbs: [get]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.dead.example.com}
spec:
  group: dead.example.com
  version: v1
  groupPriorityMinimum: 1000
  versionPriority: 15
  insecureSkipTLSVerify: true
  service: {namespace: default, name: none}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: refuse.example.com}
webhooks:
- name: refuse.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [DELETE, UPDATE], resources: ["*"]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: keep.example.com}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [DELETE], resources: [configmaps]}]}
  validations: [{expression: "false"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: keep.example.com}
spec: {policyName: keep.example.com, validationActions: [Deny]}
`

// makeMix creates all that the mix names, waiting where a kind is not yet served.
func makeMix(t *testing.T, s *reaptest.Server) {
	t.Helper()
	objects := dynamic.NewForConfigOrDie(s.Config())
	for text := range strings.SplitSeq(mix, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), o); err != nil {
			t.Fatal(err)
		}
		resource := o.GroupVersionKind().GroupVersion().WithResource(map[string]string{"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}[o.GetKind()])
		if resource.Resource == "" {
			resource.Resource = strings.ToLower(o.GetKind()) + "s"
		}
		awaitIn(t, "creating "+o.GetName(), func() (bool, any) {
			_, err := objects.Resource(resource).Namespace(o.GetNamespace()).Create(t.Context(), o, metav1.CreateOptions{})
			return err == nil, err
		})
	}
}

// mustNotBeListed proves that the mix has what cannot be listed.
func mustNotBeListed(t *testing.T, s *reaptest.Server) {
	t.Helper()
	racks := schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "racks"}
	if _, err := dynamic.NewForConfigOrDie(s.Config()).Resource(racks).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("a dead webhook converts racks")
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	s := reaptest.Start(t)
	before := settled(t, s)
	c := clientOf(t, s)

	// Before the mix, whose webhook refuses further ones.
	for _, change := range []func(context.Context) error{
		func(ctx context.Context) error { // a changed object of the system
			_, err := c.RbacV1().ClusterRoles().Patch(ctx, "cluster-admin", types.MergePatchType, []byte(`{"rules":[],"metadata":{"labels":{"mine":"yes"}}}`), metav1.PatchOptions{})
			return err
		},
		func(ctx context.Context) error { // deleted ones
			return c.RbacV1().ClusterRoleBindings().Delete(ctx, "system:discovery", metav1.DeleteOptions{})
		},
		func(ctx context.Context) error { // one with a field that cannot be changed back
			binding, err := c.RbacV1().ClusterRoleBindings().Get(ctx, "system:basic-user", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := c.RbacV1().ClusterRoleBindings().Delete(ctx, binding.Name, metav1.DeleteOptions{}); err != nil {
				return err
			}
			binding.UID, binding.ResourceVersion, binding.RoleRef.Name = "", "", "view"
			_, err = c.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
			return err
		},
		func(ctx context.Context) error {
			return c.CoreV1().Namespaces().Delete(ctx, "kube-node-lease", metav1.DeleteOptions{})
		},
		func(ctx context.Context) error {
			return c.CoreV1().ServiceAccounts("default").Delete(ctx, "default", metav1.DeleteOptions{})
		},
		func(ctx context.Context) error { // one that waits for a finalizer
			held := configMap("stuck")
			held.Finalizers = []string{"example.com/stuck"}
			if _, err := c.CoreV1().ConfigMaps("default").Create(ctx, held, metav1.CreateOptions{}); err != nil {
				return err
			}
			foreground := metav1.DeletePropagationForeground
			return c.CoreV1().ConfigMaps("default").Delete(ctx, held.Name, metav1.DeleteOptions{PropagationPolicy: &foreground})
		},
	} {
		if err := change(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	makeMix(t, s)
	mustNotBeListed(t, s)

	r := &recorded{TB: t, ctx: t.Context()}
	s.Reset(r)
	mustBeAsBefore(t, s, before)
	for _, want := range []string{
		"books.example.com/novel in namespace library: example.com/archive", "configmaps/held in namespace default: example.com/hold",
		"configmaps/stuck in namespace default: example.com/stuck", "namespaces/cellar: example.com/key",
		"racks.example.com/unreadable: example.com/shelf",
	} {
		if !strings.Contains(r.logged, want) {
			t.Errorf("%q is not in the test's output:\n%s", want, r.logged)
		}
	}
	if strings.Contains(r.logged, "pvc-protection") {
		t.Errorf("a finalizer of Kubernetes is in the test's output:\n%s", r.logged)
	}

	// And again, with nothing to do, and after the same once more.
	s.Reset(t)
	makeMix(t, s)
	s.Reset(t)
	mustBeAsBefore(t, s, before)
	c.mustServe(t)
}

// With nothing in the server that could end a namespace or collect garbage.
func TestResetWithoutControllers(t *testing.T) {
	t.Parallel()
	s := reaptest.Start(t, reaptest.WithArgs("--disable=controllers,gc"))
	before := begun(t, s)
	c := clientOf(t, s)
	if _, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "test"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	orphaned := configMap("orphaned")
	orphaned.Finalizers = []string{metav1.FinalizerOrphanDependents}
	if _, err := c.CoreV1().ConfigMaps("test").Create(t.Context(), orphaned, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Reset(t)
	mustBeAsBefore(t, s, before)
}

// What is kept survives, comes back and gets its owners again.
func TestKeep(t *testing.T) {
	t.Parallel()
	s := reaptest.Start(t)
	settled(t, s)
	maps := clientOf(t, s).CoreV1().ConfigMaps("default")
	owner, err := maps.Create(t.Context(), configMap("owner"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owned := configMap("owned")
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
	if owned, err = maps.Create(t.Context(), owned, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Reset(t)
	if live, err := maps.Get(t.Context(), "owned", metav1.GetOptions{}); err != nil || live.UID != owned.UID {
		t.Errorf("what was kept is %v (%v)", live, err)
	}

	if err := maps.Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Gone(t, owner, owned)
	s.Reset(t)
	again, err := maps.Get(t.Context(), "owner", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	live, err := maps.Get(t.Context(), "owned", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(live.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == again.UID }) {
		t.Errorf("the owner is %s, and the references are %v", again.UID, live.OwnerReferences)
	}
}
