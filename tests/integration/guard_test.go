package integration

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestGuardPausesTheCollector before more objects go than it lets through, whose owners nobody has seen. A cascade that
// began before its eyes is none of its business; the pause outlives the server.
func TestGuardPausesTheCollector(t *testing.T) {
	t.Parallel()
	s := start(t, "--gc-guard=5")
	ns := s.namespace(t, "guarded")
	o := s.create(t, configMaps, ns, "owner")
	s.createMany(t, 20, configMaps, ns, "dependent", owner(o))
	s.awaitKnown(t, configMaps, o)
	s.delete(t, configMaps, o)
	s.awaitCount(t, 0, configMaps, ns)
	if st := s.status(t); st.Pause != nil || st.Guard == nil || st.Guard.Limit != 5 {
		t.Fatalf("after a cascade: %+v, %+v", st.Pause, st.Guard)
	}
	before := s.status(t).Guard.Deleted.Count // a dependent may have been looked at before its owner's end was seen
	s.createMany(t, 20, configMaps, ns, "lost", nobody(secrets))
	paused := func(left int) {
		t.Helper()
		await(t, "the guard to pause the collector", func(context.Context) (bool, any) {
			st := s.status(t)
			return st.Pause != nil && st.Pause.By == "--gc-guard" && st.Guard.Next != nil && st.Busy == 0, st
		})
		if n := s.count(t, configMaps, ns); n != left {
			t.Errorf("%d objects are left, not %d", n, left)
		}
	}
	left := 15 + before
	paused(left)
	if st := s.status(t); st.Guard.Deleted.Count != 5 || !strings.HasPrefix(st.Guard.Next.Name, "lost-") {
		t.Errorf("%+v", st.Guard)
	}
	if out := s.must(t, "status"); !strings.Contains(out, "5 of 5 deletions on lookups alone") || !strings.Contains(out, "reap lint -A") {
		t.Errorf("reap status says\n%s", out)
	}
	if s.sum(t, "reap_gc_guard_pauses_total") != 1 || s.sum(t, "reap_gc_lookup_deletions_total") != 5 {
		t.Error("the metrics do not say so")
	}
	await(t, "the event", func(ctx context.Context) (bool, any) {
		all, err := s.kube.CoreV1().Events(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{FieldSelector: "reason=GuardPaused,involvedObject.name=reap-gc"})
		return err == nil && len(all.Items) == 1, all
	})
	await(t, "the pause to be written", func(ctx context.Context) (bool, any) {
		m, err := s.kube.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "reap-gc", metav1.GetOptions{})
		return err == nil && m.Data["paused"] == "true", err
	})
	s.stop(t)
	s.restart(t)
	await(t, "the pause to be read", func(context.Context) (bool, any) { // which comes behind the check of the datastore
		st := s.status(t)
		return st.Pause != nil && st.Pause.By == "--gc-guard", st.Pause
	})
	if n := s.count(t, configMaps, ns); n != left {
		t.Errorf("after a restart %d of %d are left", n, left)
	}
	s.must(t, "resume")
	paused(left - 5)
}
