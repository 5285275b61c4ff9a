package apiserver

import (
	"net/http"
	"testing"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
)

// TestLivenessDoesNotAskTheDatastore: kube-apiserver's checks of it are in readiness alone.
func TestLivenessDoesNotAskTheDatastore(t *testing.T) {
	var all []healthz.HealthChecker
	for _, name := range []string{"ping", "log", "etcd", "etcd-override-0", "etcd-lookalike"} {
		all = append(all, healthz.NamedCheck(name, func(*http.Request) error { return nil }))
	}
	c := &genericapiserver.Config{LivezChecks: all, HealthzChecks: all, ReadyzChecks: all}
	livenessOfTheProcess(c)
	if len(c.ReadyzChecks) != len(all) {
		t.Errorf("readiness has %d checks, not %d", len(c.ReadyzChecks), len(all))
	}
	for path, checks := range map[string][]healthz.HealthChecker{"/livez": c.LivezChecks, "/healthz": c.HealthzChecks} {
		if len(checks) != 3 || checks[0].Name() != "ping" || checks[1].Name() != "log" || checks[2].Name() != "etcd-lookalike" {
			t.Errorf("%s has the checks %v", path, checks)
		}
	}
}
