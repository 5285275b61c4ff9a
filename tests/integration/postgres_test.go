package integration

import (
	"context"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/tests/databases"
)

// TestSharedDatastore has two servers on one PostgreSQL: both serve, one collects, and when that one
// dies in the middle of a cascade, the other finishes it. Cascades with every policy end there.
func TestSharedDatastore(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs PostgreSQL and waits for a lease to run out")
	}
	n := interruptedAfterATenth()
	_, endpoint := databases.Postgres(t)
	both := []*server{start(t, "--datastore-endpoint", endpoint, "--gc-workers=1")}
	both = append(both, both[0].beside(t, "--datastore-endpoint", endpoint, "--gc-workers=1"))
	var leader, follower *server
	await(t, "one of two servers to lead", func(ctx context.Context) (bool, any) {
		var leading []bool
		for _, s := range both {
			l, err := s.collects(ctx)
			if err != nil {
				return false, err
			}
			leading = append(leading, l)
		}
		if leading[0] == leading[1] {
			return false, leading
		}
		leader, follower = both[slices.Index(leading, true)], both[slices.Index(leading, false)]
		return true, leading
	})
	for s, want := range map[*server]float64{leader: 1, follower: 0} {
		all, err := s.samples(t.Context(), "reap_gc_running")
		if v, n := sum(all, "reap_gc_running"); err != nil || n != 1 || v != want {
			t.Errorf("reap_gc_running is %v in %d series, want %v (%v)", v, n, want, err)
		}
	}
	before := follower.leaseHolder(t)
	if before == "" || before != leader.leaseHolder(t) {
		t.Errorf("the lease is held by %q", before)
	}

	ns := follower.namespace(t, "shared")
	o := follower.create(t, configMaps, ns, "owner")
	follower.createMany(t, n, configMaps, ns, "dependent", owner(o))
	follower.create(t, configMaps, ns, "kept")
	if l, err := follower.collects(t.Context()); l || err != nil {
		t.Errorf("both collect (%v)", err)
	}
	deleted := follower.watchDeletions(t, configMaps, ns)
	leader.delete(t, configMaps, o)
	for range n / 10 {
		deleted()
	}
	leader.kill()
	killed := time.Now()
	left := follower.count(t, configMaps, ns) - 1
	if left <= 0 {
		t.Fatal("the cascade was not interrupted")
	}
	await(t, "the other server to lead", func(ctx context.Context) (bool, any) {
		l, err := follower.collects(ctx)
		return l, err
	})
	t.Logf("%d of %d were left; the other server led %s later", left, n, time.Since(killed).Round(time.Millisecond))
	follower.awaitCount(t, 1, configMaps, ns)
	if after := follower.leaseHolder(t); after == before {
		t.Errorf("the lease is still held by %q", after)
	}
	follower.mustWork(t)

	// A server that comes back lets the other lead.
	leader.restart(t)
	if l, err := leader.collects(t.Context()); l || err != nil {
		t.Errorf("both collect (%v)", err)
	}
	// One that is asked to end does not let the other wait for the lease to run out.
	follower.stop(t)
	await(t, "the first server to lead again", func(ctx context.Context) (bool, any) {
		l, err := leader.collects(ctx)
		return l, err
	})
	leader.mustWork(t)
	leader.mustDeleteByEveryPolicy(t)
}

// leaseHolder returns who leads, by the lease of the stock controller manager: reap takes its place.
func (s *server) leaseHolder(t *testing.T) string {
	t.Helper()
	l, err := s.kube.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), "kube-controller-manager", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}
