package apiserver

import (
	"slices"

	genericoptions "k8s.io/apiserver/pkg/server/options"
)

// withoutController lists admission plugins that Kubernetes enables by default and
// that rely on a controller that does not run here. With any of them, objects would
// wait for ever. docs/controllers.md has the decision for every plugin.
var withoutController = []string{
	"StorageObjectInUseProtection", // finalizers on claims and volumes, which then never go
	"PodGroupProtection",           // the same on pod groups, where their feature is on
	"ResourceQuota",                // usage that nobody counts: objects that a quota covers are refused
	"TaintNodesByCondition",        // a taint on each new node that keeps a DaemonSet's pods away
}

// disableAdmission disables these plugins, except those that the user has enabled: then
// the user runs the controller.
func disableAdmission(a *genericoptions.AdmissionOptions) {
	for _, name := range withoutController {
		if !slices.Contains(a.EnablePlugins, name) && !slices.Contains(a.DisablePlugins, name) {
			a.DisablePlugins = append(a.DisablePlugins, name)
		}
	}
}
