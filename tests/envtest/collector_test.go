package envtest

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func configMap(namespace, name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: owners}}
}

func site(name string) *unstructured.Unstructured {
	s := &unstructured.Unstructured{}
	s.SetAPIVersion("web.example.com/v1")
	s.SetKind("Site")
	s.SetNamespace("default")
	s.SetName(name)
	return s
}

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}}},
			},
		},
	}
}

// TestObjectsGoWithTheirOwners is why anybody would export the variable.
func TestObjectsGoWithTheirOwners(t *testing.T) {
	t.Parallel()
	env := start(t, &envtest.Environment{})

	owner := create(t, env, configMap("default", "owner"))
	reference := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}
	dependent := create(t, env, configMap("default", "dependent", reference))
	other := create(t, env, configMap("default", "other"))
	if err := env.Delete(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	gone(t, env, dependent)
	if err := env.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil {
		t.Errorf("an object without an owner: %v", err)
	}

	d := create(t, env, deployment("web"))
	pods := &corev1.PodList{}
	eventually(t, "two pods of the Deployment", func(ctx context.Context) (bool, error) {
		err := env.List(ctx, pods, client.MatchingLabels(d.Spec.Selector.MatchLabels))
		return err == nil && len(pods.Items) == 2, nil
	})
	if err := env.Delete(t.Context(), d, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	gone(t, env, d)
	if err := env.List(t.Context(), pods); err != nil || len(pods.Items) != 0 {
		t.Errorf("%d pods are left when their Deployment has gone in the foreground (%v)", len(pods.Items), err)
	}
}

func TestNamespacesTerminate(t *testing.T) {
	t.Parallel()
	env := start(t, &envtest.Environment{})
	namespace := create(t, env, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	object := create(t, env, configMap("shop", "any"))
	// Without its controller a claim would wait for somebody to take its finalizer off.
	claim := create(t, env, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: oneGi}},
		},
	})
	if err := env.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	gone(t, env, namespace)
	gone(t, env, object)
	gone(t, env, claim)
}

// TestDisabledIsPlainEnvtest: with the variable that reap's help names nothing runs beside the API server, and it admits what
// kube-apiserver admits.
func TestDisabledIsPlainEnvtest(t *testing.T) {
	t.Setenv("REAP_DISABLE", "gc,controllers")
	var log safeBuffer
	env := start(t, &envtest.Environment{ControlPlane: envtest.ControlPlane{APIServer: &envtest.APIServer{Err: &log}}})
	eventually(t, "the log to say that no controller runs", func(context.Context) (bool, error) {
		return strings.Contains(log.String(), `msg="controllers are running" component=controllers controllers=0`), nil
	})
	set, err := kubernetes.NewForConfig(env.config)
	if err != nil {
		t.Fatal(err)
	}
	ready, err := set.RESTClient().Get().AbsPath("/readyz").Param("verbose", "").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(ready), "no collector runs in this server") {
		t.Errorf("readyz: %v\n%s", err, ready)
	}
	claim := create(t, env, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: oneGi}},
		},
	})
	if len(claim.Finalizers) != 1 {
		t.Errorf("a claim has the finalizers %q: kube-apiserver gives it one by itself", claim.Finalizers)
	}
}

// refuser is a webhook that refuses objects by a name.
type refuser struct{ name string }

func (r refuser) Handle(_ context.Context, request admission.Request) admission.Response {
	if request.Operation == admissionv1.Create && request.Name == r.name {
		return admission.Errored(403, errors.New("refused by the test's own webhook"))
	}
	return admission.Allowed("")
}

// TestCustomResourcesAndWebhooks takes both from the example.
func TestCustomResourcesAndWebhooks(t *testing.T) {
	t.Parallel()
	const config = "../../examples/operator/config/"
	env := &envtest.Environment{
		CRDDirectoryPaths:     []string{config + "crd.yaml"},
		ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{config + "webhook.yaml"}},
	}
	running := start(t, env)
	hooks := webhook.NewServer(webhook.Options{
		Host: env.WebhookInstallOptions.LocalServingHost, Port: env.WebhookInstallOptions.LocalServingPort,
		CertDir: env.WebhookInstallOptions.LocalServingCertDir,
	})
	hooks.Register("/validate-web-example-com-v1-site", &admission.Webhook{Handler: refuser{"refused"}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- hooks.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	eventually(t, "the webhook", func(context.Context) (bool, error) {
		address := net.JoinHostPort(env.WebhookInstallOptions.LocalServingHost, strconv.Itoa(env.WebhookInstallOptions.LocalServingPort))
		connection, err := net.Dial("tcp", address)
		return err == nil && connection.Close() == nil, nil
	})

	if err := running.Create(t.Context(), site("refused")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "the test's own webhook") {
		t.Errorf("got the error %v", err)
	}
	owner := create(t, running, site("shop"))
	reference := metav1.OwnerReference{APIVersion: "web.example.com/v1", Kind: "Site", Name: "shop", UID: owner.GetUID(), BlockOwnerDeletion: new(true)}
	page := create(t, running, configMap("default", "page", reference))
	if err := running.Delete(t.Context(), owner, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	gone(t, running, page)
	gone(t, running, owner)
}
