package reaptest

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

func runServer(t *testing.T) *Server {
	t.Helper()
	s, err := Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() }) // the tests have seen what it returns
	return s
}

// guardMaps makes and keeps a policy by which no ConfigMap called guarded can be deleted.
func guardMaps(t *testing.T, s *Server) kubernetes.Interface {
	t.Helper()
	c := kubernetes.NewForConfigOrDie(s.Config())
	name := metav1.ObjectMeta{Name: "guard.example.com"}
	_, err := c.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: name,
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				ResourceNames: []string{"guarded"},
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "it is guarded"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: name,
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestResetNamesWhatDoesNotGo(t *testing.T) {
	t.Parallel()
	s := runServer(t)
	c := guardMaps(t, s)
	maps := c.CoreV1().ConfigMaps("default")
	guarded := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "guarded"}}
	if _, err := maps.Create(t.Context(), guarded, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The server takes a moment to learn of a policy.
	err := wait.PollUntilContextTimeout(t.Context(), poll, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := maps.Delete(ctx, "guarded", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "it is guarded"), nil
	})
	if err != nil {
		t.Fatalf("waiting for the policy: %v", err)
	}
	r := newResetting(s.clients, s.kept)
	for len(r.refusals) == 0 {
		r.pass(t.Context())
	}
	left := r.left()
	for _, want := range []string{"configmaps/guarded in namespace default: is still there", "it is guarded"} {
		if !strings.Contains(left, want) {
			t.Errorf("%q is not in what is left: %s", want, left)
		}
	}
	s.resetWithin = time.Nanosecond
	if _, err := s.reset(t.Context()); err == nil || !strings.Contains(err.Error(), "after 1ns it is not as it was") {
		t.Errorf("without time it says %v", err)
	}

	// What is kept comes back when the rest has gone.
	s.resetWithin = resetWithin
	bindings := c.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	if err := bindings.Delete(t.Context(), "guard.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.reset(t.Context()); err != nil {
		t.Errorf("with the policy out of force: %v", err)
	}
	if _, err := maps.Get(t.Context(), "guarded", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("reading what was guarded: %v", err)
	}
	if _, err := bindings.Get(t.Context(), "guard.example.com", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestResetOfAServerThatHasEnded(t *testing.T) {
	t.Parallel()
	s := runServer(t)
	s.process.kill()
	if _, err := s.reset(t.Context()); err == nil || !strings.Contains(err.Error(), "the server ended by itself") {
		t.Errorf("it says %v", err)
	}
}

// What the API server makes after the first list of what is kept.
func TestResetLeavesWhatTheAPIServerMakes(t *testing.T) {
	t.Parallel()
	s := runServer(t)
	var made state
	err := wait.PollUntilContextTimeout(t.Context(), poll, time.Minute, true, func(ctx context.Context) (bool, error) {
		var err error
		made, err = s.clients.state(ctx)
		return made.objects[key{schema.GroupResource{Resource: "services"}, "default", "kubernetes"}] != nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
	own := 0
	for id := range made.objects {
		if id.apiServers() {
			own++
			delete(s.kept.objects, id)
		}
	}
	if _, err := s.reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	now, err := s.clients.state(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for id, was := range made.objects {
		if is := now.objects[id]; id.apiServers() && (is == nil || is.UID != was.UID) {
			t.Errorf("%s was deleted", id)
		}
	}
	if own < 8 {
		t.Errorf("of the API server's own objects there are %d", own)
	}
}
