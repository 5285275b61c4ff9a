package apiserver

import (
	"slices"
	"strings"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
)

// livenessOfTheProcess takes the datastore out of /livez and of /healthz, its older name; /readyz keeps it. A probe of /livez would kill a
// process that goes on by itself as soon as the datastore answers again.
func livenessOfTheProcess(c *genericapiserver.Config) {
	asksDatastore := func(check healthz.HealthChecker) bool {
		return check.Name() == "etcd" || strings.HasPrefix(check.Name(), "etcd-override-")
	}
	c.LivezChecks = slices.DeleteFunc(slices.Clone(c.LivezChecks), asksDatastore)
	c.HealthzChecks = slices.DeleteFunc(slices.Clone(c.HealthzChecks), asksDatastore)
}
