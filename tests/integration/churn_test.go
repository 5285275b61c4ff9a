package integration

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDefinitionDeletedMidCascade takes a CRD away while its objects are owners and dependents in foreground deletions that run, and
// while another one comes and goes and an aggregated API is dead: all of them end, and what a living object owns stays.
func TestDefinitionDeletedMidCascade(t *testing.T) {
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

// TestQuotaThatRefuses has the API server refuse whatever is made in a namespace, events too: deletions by every policy go on there,
// and a ring is broken.
func TestQuotaThatRefuses(t *testing.T) {
	t.Parallel()
	s := start(t, "--kube-apiserver-arg=enable-admission-plugins=ResourceQuota")
	ns := s.namespace(t, "quota")
	block := true
	blocking := func(r metav1.OwnerReference) metav1.OwnerReference {
		r.BlockOwnerDeletion = &block
		return r
	}
	back, front, free := s.create(t, configMaps, ns, "back"), s.create(t, configMaps, ns, "front"), s.create(t, configMaps, ns, "free")
	s.createMany(t, 10, secrets, ns, "behind", owner(back))
	s.createMany(t, 10, secrets, ns, "below", blocking(owner(front)))
	s.createMany(t, 10, secrets, ns, "freed", owner(free))
	one := s.create(t, configMaps, ns, "one")
	one = s.setOwners(t, configMaps, one, blocking(owner(s.create(t, configMaps, ns, "two", blocking(owner(one))))))
	s.from(t, quotas, ns, `
apiVersion: v1
kind: ResourceQuota
metadata: {name: test}
spec: {hard: {count/configmaps: "1", count/secrets: "1", count/events: "1", count/events.events.k8s.io: "1"}}
`)
	await(t, "the quota to refuse", func(ctx context.Context) (bool, any) {
		_, err := s.dyn.Resource(secrets.gvr).Namespace(ns).Create(ctx, object(secrets, "too-much"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err), err
	})
	s.delete(t, configMaps, back)
	s.deleteAs(t, configMaps, front, foreground)
	s.deleteAs(t, configMaps, free, orphan)
	s.deleteAs(t, configMaps, one, foreground)
	s.awaitCount(t, 0, configMaps, ns)
	s.awaitCount(t, 10, secrets, ns)
	if all, err := s.kube.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{}); err != nil || len(all.Items) > 0 {
		t.Errorf("the quota let %d events pass (%v)", len(all.Items), err)
	}
}
