package apiserver

import (
	"slices"

	genericoptions "k8s.io/apiserver/pkg/server/options"
)

// withoutController are the admission plugins that are on by default in Kubernetes
// and rely on a controller that does not run here: each would leave something waiting
// for ever. docs/controllers.md has the decision for every plugin.
var withoutController = []string{
	"StorageObjectInUseProtection", // finalizers on claims and volumes, which then never go
	"PodGroupProtection",           // the same on pod groups, where their feature is on
	"ResourceQuota",                // usage that nobody counts: what a quota covers is refused
	"TaintNodesByCondition",        // a taint on each new node that keeps a DaemonSet's pods away
}

// disableAdmission turns them off, except those that the user has turned on: the user
// runs the controller, then.
func disableAdmission(a *genericoptions.AdmissionOptions) {
	for _, name := range withoutController {
		if !slices.Contains(a.EnablePlugins, name) && !slices.Contains(a.DisablePlugins, name) {
			a.DisablePlugins = append(a.DisablePlugins, name)
		}
	}
}
