package apiserver

import (
	"maps"
	"slices"

	genericoptions "k8s.io/apiserver/pkg/server/options"
)

// relying lists the admission plugins that Kubernetes enables by default and that rely on controllers. Without these,
// objects would wait for ever. A plugin without controllers here relies on one that reap does not have.
// docs/controllers.md has the decision for every plugin.
var relying = map[string][]string{
	// finalizers on claims, volumes and classes
	"StorageObjectInUseProtection": {"pvc-protection", "pv-protection", "vac-protection"},
	// usage that nobody would count down: a quota that is full would stay full
	"ResourceQuota": {"resourcequota"},
	// finalizers on pod groups, where their feature is on
	"PodGroupProtection": nil,
	// a taint on each new node that keeps a DaemonSet's pods away
	"TaintNodesByCondition": nil,
}

// disableAdmission disables the plugins whose controllers do not run, except those that the user has enabled: then the
// user runs the controllers. runs reports whether a controller runs here; nil: none does.
func disableAdmission(a *genericoptions.AdmissionOptions, runs func(controller string) bool) {
	for _, name := range slices.Sorted(maps.Keys(relying)) {
		if served(relying[name], runs) || slices.Contains(a.EnablePlugins, name) || slices.Contains(a.DisablePlugins, name) {
			continue
		}
		a.DisablePlugins = append(a.DisablePlugins, name)
	}
}

// served reports whether all of the controllers run, and there are any.
func served(controllers []string, runs func(string) bool) bool {
	if runs == nil || len(controllers) == 0 {
		return false
	}
	return !slices.ContainsFunc(controllers, func(c string) bool { return !runs(c) })
}
