package integration

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCRDDeletedDuringCascades takes a CRD away while its objects are owners and dependents in foreground deletions that run, and
// while another one comes and goes and an aggregated API is dead: all of them end, and what a living object owns stays.
func TestCRDDeletedDuringCascades(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "mid-cascade")
	cogs, crd := s.define(t, "Namespaced", "cogs", "Cog")
	block := true
	blocking := func(r metav1.OwnerReference) metav1.OwnerReference {
		r.BlockOwnerDeletion = &block
		return r
	}
	const n = 100
	solid := s.create(t, configMaps, ns, "solid")
	top, root := s.create(t, configMaps, ns, "top"), s.create(t, cogs, ns, "root")
	s.createMany(t, n, cogs, ns, "below-top", blocking(owner(top)))
	between := s.create(t, cogs, ns, "between", blocking(owner(top)))
	s.createMany(t, n, secrets, ns, "below-between", blocking(owner(between)))
	s.createMany(t, n, configMaps, ns, "below-root", blocking(owner(root)))
	s.createMany(t, n, secrets, ns, "kept", owner(solid), blocking(owner(root)))
	s.barrier(t, cogs, ns) // the collector knows of them

	api := s.from(t, apiServices, "", `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.dead.test.reap.dev}
spec:
  group: dead.test.reap.dev
  version: v1
  groupPriorityMinimum: 1000
  versionPriority: 15
  insecureSkipTLSVerify: true
  service: {namespace: default, name: none}
`)
	t.Cleanup(func() { // a failed test leaves others a server that can tell what it has
		_ = s.dyn.Resource(apiServices.gvr).Delete(context.WithoutCancel(t.Context()), api.GetName(), metav1.DeleteOptions{}) // usually gone
	})
	s.deleteAs(t, configMaps, top, foreground)
	s.deleteAs(t, cogs, root, foreground)
	s.delete(t, definitions, crd)
	for range 3 {
		_, passing := s.define(t, "Namespaced", "flaps", "Flap")
		s.undefine(t, passing)
	}
	s.awaitGone(t, definitions, crd)
	s.awaitGone(t, configMaps, top)
	s.awaitCount(t, 1, configMaps, ns) // solid
	s.awaitCount(t, n, secrets, ns)
	s.barrier(t, secrets, ns)
	if left := s.count(t, secrets, ns); left != n {
		t.Errorf("%d of %d dependents of a living owner are left", left, n)
	}
	s.mustExist(t, configMaps, solid)
	s.delete(t, apiServices, api)
	s.awaitGone(t, apiServices, api)
}
