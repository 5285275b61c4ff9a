package config

import (
	"fmt"
	"slices"
	"strings"
)

// allControllers stands for every controller in the table, but not for the collector, which has its own
// name.
const allControllers = "controllers"

// parts lists what --disable accepts. Every controller of pkg/controllers must be here.
var parts = []struct {
	name       string
	controller bool
}{
	{name: "gc"},
	{name: allControllers},
	{name: "namespace", controller: true},
	{name: "serviceaccount", controller: true},
	{name: "root-ca-publisher", controller: true},
	{name: "clusterrole-aggregation", controller: true},
	{name: "podgc", controller: true},
	{name: "replicationcontroller", controller: true},
	{name: "replicaset", controller: true},
	{name: "deployment", controller: true},
	{name: "statefulset", controller: true},
	{name: "daemonset", controller: true},
	{name: "job", controller: true},
	{name: "cronjob", controller: true},
	{name: "ttl-after-finished", controller: true},
	{name: "endpoints", controller: true},
	{name: "endpointslice", controller: true},
	{name: "endpointslicemirroring", controller: true},
	{name: "disruption", controller: true},
	{name: "resourcequota", controller: true},
	{name: "validatingadmissionpolicy-status", controller: true},
	{name: "persistentvolume-binder", controller: true},
	{name: "pvc-protection", controller: true},
	{name: "pv-protection", controller: true},
	{name: "vac-protection", controller: true},
	{name: "ephemeral-volume", controller: true},
	{name: "resourceclaim", controller: true},
	{name: "csrapproving", controller: true},
	{name: "csrsigning", controller: true},
	{name: "csrcleaner", controller: true},
	{name: "serviceaccount-token", controller: true},
}

func partNames() []string {
	names := make([]string, 0, len(parts))
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

func isController(name string) bool {
	for _, p := range parts {
		if p.name == name {
			return p.controller
		}
	}
	return false
}

func checkPart(name string) error {
	names := partNames()
	if slices.Contains(names, name) {
		return nil
	}
	return fmt.Errorf("unknown part %q%s: give one of %s", name, didYouMean(name, names), strings.Join(names, ", "))
}
