package controllers

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// notHeld are controllers that may delete and work at once after a restore, with what they delete.
var notHeld = map[string]string{
	"replicationcontroller":   "pods of an object that says how many there should be",
	"replicaset":              "pods of an object that says how many there should be",
	"deployment":              "the old replica sets of an object that says how many to keep",
	"statefulset":             "pods and claims of an object that says which there should be",
	"daemonset":               "pods of an object that says where they should be",
	"endpointslice":           "what it makes of Services and pods itself",
	"endpointslicemirroring":  "what it makes of Endpoints itself",
	"persistentvolume-binder": "volumes through plugins, of which there are none here",
	"csrapproving":            "nothing; it shares its account with csrcleaner",
	"csrsigning":              "nothing; it shares its account with csrcleaner",
}

// TestControllersThatDeleteAreHeld: after a restore each controller that may delete something waits, or it is known why not. A new one, and
// one that may delete from now on, has to be thought about.
func TestControllersThatDeleteAreHeld(t *testing.T) {
	roles := bootstrappolicy.ControllerRoles()
	may := map[string]bool{} // delete something, by the name of its account's role
	for _, r := range roles {
		for _, rule := range r.Rules {
			if slices.ContainsFunc(rule.Verbs, func(v string) bool { return v == "delete" || v == "deletecollection" || v == "*" }) {
				may[r.Name] = true
			}
		}
	}
	for _, c := range all {
		// A controller without an account acts as kube-controller-manager, which may delete.
		deletes := c.account == "" || may["system:controller:"+c.account]
		held, reason := slices.Contains(deleting, c.name), notHeld[c.name]
		switch {
		case deletes && !held && reason == "":
			t.Errorf("%s may delete objects, and is not held after a restore", c.name)
		case held && reason != "":
			t.Errorf("%s is held, and need not be: %s", c.name, reason)
		case !deletes && (held || reason != ""):
			t.Errorf("%s may delete nothing", c.name)
		}
	}
	for _, name := range slices.AppendSeq(slices.Clone(deleting), maps.Keys(notHeld)) {
		if !slices.Contains(Names(), name) {
			t.Errorf("there is no controller %s", name)
		}
	}
}
