package scenarios

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/tests/fakeapi"
	"github.com/reap-dev/reap/tests/fakeapi/rig"
)

// deleteOptions returns the options that the words after a deleted object's name stand for.
func deleteOptions(words []string) metav1.DeleteOptions {
	if len(words) == 0 {
		return metav1.DeleteOptions{}
	}
	if words[0] == "orphanDependents" {
		yes := true
		//lint:ignore SA1019 deprecated, and still honoured by the API server
		return metav1.DeleteOptions{OrphanDependents: &yes}
	}
	policy := metav1.DeletionPropagation(words[0])
	return metav1.DeleteOptions{PropagationPolicy: &policy}
}

// update sets an object's finalizers and references to those that are written.
func update(r *rig.Rig, p parsed) error {
	return r.Update(p.resource, p.meta.Namespace, p.meta.Name, func(m *metav1.ObjectMeta) {
		m.Finalizers, m.OwnerReferences = p.meta.Finalizers, p.meta.OwnerReferences
	})
}

// define reads PLURAL.GROUP KIND VERSION… [cluster].
func define(r *rig.Rig, text string) error {
	words := strings.Fields(text)
	name, group, ok := strings.Cut(words[0], ".")
	if !ok || len(words) < 3 {
		return fmt.Errorf("%q defines nothing", text)
	}
	versions := words[2:]
	cluster := versions[len(versions)-1] == "cluster"
	if cluster {
		versions = versions[:len(versions)-1]
	}
	r.Define(fakeapi.Resource{Group: group, Name: name, Kind: words[1], Versions: versions, Namespaced: !cluster})
	return nil
}
