package integration

import (
	"bytes"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDisabledCollectorLeavesAllUntilItRunsAgain(t *testing.T) {
	const n = 1000
	s := newServer(t.TempDir())
	enabled := slices.Clone(s.args)
	s.args = append(s.args, "--disable=gc")
	s.start(t)
	if !bytes.Contains(s.logFrom(0), []byte("no collector runs")) {
		t.Error("the log does not say that no collector runs")
	}
	s.mustBeReady(t, "[+]reap-gc (no collector runs: --disable=gc) ok\n")
	ns, elsewhere := s.namespace(t, "disabled"), s.namespace(t, "elsewhere")
	o := s.create(t, configMaps, ns, "owner")
	s.createMany(t, n, configMaps, ns, "dependent", owner(o))
	s.create(t, configMaps, ns, "kept")
	s.delete(t, configMaps, o)
	s.awaitGone(t, configMaps, o)
	// What the server does by itself after a delete, it has done by the time that another controller
	// has gone through a whole namespace; and its end and another start bring nothing.
	s.deleteNamespace(t, elsewhere)
	if left := s.count(t, configMaps, ns); left != n+1 {
		t.Fatalf("without a collector, %d of %d are left", left, n+1)
	}
	s.stop(t)
	s.restart(t)
	if left := s.count(t, configMaps, ns); left != n+1 {
		t.Fatalf("without a collector, %d of %d are left after a restart", left, n+1)
	}
	s.stop(t)
	from := len(s.logFrom(0))
	s.restart(t, enabled...)
	s.awaitCount(t, 1, configMaps, ns)
	if _, err := s.kube.CoreV1().ConfigMaps(ns).Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if bytes.Contains(s.logFrom(int64(from)), []byte("no collector runs")) {
		t.Error("the log says that no collector runs, and one does")
	}
}
