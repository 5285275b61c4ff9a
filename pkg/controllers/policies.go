package controllers

import (
	"context"

	apiextensionsscheme "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/scheme"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/restmapper"
	"k8s.io/kubernetes/pkg/controller/validatingadmissionpolicystatus"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// newPolicyStatus checks the types in the expressions of ValidatingAdmissionPolicies. For that it needs the schemas of
// all resources, so it is created with the first policy.
func newPolicyStatus(_ context.Context, p parts) (run, error) {
	policies := p.caches.admission().ValidatingAdmissionPolicies()
	return onFirst(p, policies.Informer(), func(context.Context) (run, error) {
		schemas := resolver.NewDefinitionsSchemaResolver(openapi.GetOpenAPIDefinitions, scheme.Scheme, apiextensionsscheme.Scheme).
			Combine(&resolver.ClientDiscoveryResolver{Discovery: p.client.Discovery()})
		c, err := validatingadmissionpolicystatus.NewController(policies, p.client.AdmissionregistrationV1().ValidatingAdmissionPolicies(),
			&validating.TypeChecker{
				SchemaResolver: schemas,
				RestMapper:     restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(p.client.Discovery())),
			})
		if err != nil {
			return nil, err
		}
		return withWorkers(c.Run), nil
	})
}
