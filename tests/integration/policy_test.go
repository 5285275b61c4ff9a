package integration

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var admissionPolicies = kind{
	schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
	"ValidatingAdmissionPolicy",
}

// mistyped compares a number with a string. Without a binding it denies nothing.
const mistyped = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: mistyped}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
  validations: [{expression: object.spec.replicas > '5'}]
`

// awaitWarned waits for the status that names the wrong expression.
func (s *server) awaitWarned(t *testing.T, name string) {
	t.Helper()
	await(t, "the policy's expressions to be checked", func(ctx context.Context) (bool, any) {
		p, err := s.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
		if err != nil || p.Status.TypeChecking == nil {
			return false, err
		}
		w := p.Status.TypeChecking.ExpressionWarnings
		return len(w) == 1 && strings.Contains(w[0].Warning, "no matching overload"), w
	})
}

func TestPolicysExpressionsAreChecked(t *testing.T) {
	s := shared(t)
	o := s.from(t, admissionPolicies, "", mistyped)
	s.awaitWarned(t, o.GetName())
	s.deleteAs(t, admissionPolicies, o, background)
	s.awaitGone(t, admissionPolicies, o)
}
