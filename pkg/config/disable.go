package config

import (
	"fmt"
	"slices"
	"strings"
)

// allControllers stands for every controller of the table, those added later too. The collector is not
// one of them: it has a name of its own.
const allControllers = "controllers"

// parts is what --disable accepts. Whoever adds a controller to pkg/controllers adds its name here.
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
	return fmt.Errorf("nothing is called %q%s: there is %s", name, didYouMean(name, names), strings.Join(names, ", "))
}
