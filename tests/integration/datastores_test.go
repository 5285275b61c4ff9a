package integration

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/reap-dev/reap/tests/databases"
)

// TestEachDatastoreKeepsObjectsAndEndsCascades runs a server on MariaDB and on an etcd of its own; TestSharedDatastore does on PostgreSQL. Cascades with every policy end, also after a
// kill, objects of the maximum size are kept, and the server continues after a restart of the database.
func TestEachDatastoreKeepsObjectsAndEndsCascades(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the databases and waits for a lease to run out")
	}
	for name, open := range map[string]func(*testing.T) (*databases.Server, string){
		"mysql": databases.MariaDB, "etcd": databases.Etcd,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			database, endpoint := open(t)
			s := interrupt(t, killed, []string{"--datastore-endpoint", endpoint, "--gc-workers=4"}, &interruptedCascade{n: 200})
			s.mustDeleteByEveryPolicy(t)
			s.mustKeepLargeObjects(t)
			database.Stop()
			database.Start(t)
			s.mustRecover(t)
		})
	}
}

// mustDeleteByEveryPolicy checks on a few objects that each policy does what it says.
func (s *server) mustDeleteByEveryPolicy(t *testing.T) {
	t.Helper()
	ns := s.namespace(t, "policies")
	front, back, freeing := s.create(t, configMaps, ns, "front"), s.create(t, configMaps, ns, "back"), s.create(t, configMaps, ns, "freeing")
	middle := s.create(t, secrets, ns, "middle", blocking(front))
	s.create(t, configMaps, ns, "leaf", blocking(middle))
	s.create(t, secrets, ns, "behind", owner(back))
	kept := s.create(t, secrets, ns, "kept", owner(freeing))
	s.deleteAs(t, configMaps, front, foreground)
	s.deleteAs(t, configMaps, back, background)
	s.deleteAs(t, configMaps, freeing, orphan)
	s.awaitCount(t, 0, configMaps, ns)
	s.awaitCount(t, 1, secrets, ns)
	s.mustHaveOwners(t, secrets, kept)
}

// mustRecover waits until a server serves and collects again.
func (s *server) mustRecover(t *testing.T) {
	t.Helper()
	await(t, "the server to be ready and to collect", func(ctx context.Context) (bool, any) {
		if !s.running() {
			t.Fatalf("the server has ended: %s", s.cmd.ProcessState)
		}
		if _, err := s.get(ctx, "/readyz"); err != nil {
			return false, err
		}
		collects, err := s.collects(ctx)
		return collects, err
	})
	s.mustWork(t)
}

// TestOldProofIsDroppedWhenTheStoreGoesBack restores etcd to an earlier state while reap uses it. An owner exists again that the
// collector had proved to be gone. The collector restarts and deletes nothing on the old proof.
func TestOldProofIsDroppedWhenTheStoreGoesBack(t *testing.T) {
	t.Parallel() // it mostly waits
	if testing.Short() {
		t.Skip("needs etcd")
	}
	database, endpoint := databases.Etcd(t)
	s := start(t, "--datastore-endpoint", endpoint, "--gc-resync=1m")
	await(t, "the server to collect", func(ctx context.Context) (bool, any) {
		collects, err := s.collects(ctx)
		return collects, err
	})
	ns := s.namespace(t, "back")
	o := s.create(t, configMaps, ns, "owner")
	s.createMany(t, 20, secrets, ns, "dependent", owner(o))
	held := s.createHeld(t, secrets, ns, "held", owner(o))

	database.Stop()
	database.Prepare(t, "cp", "-r", "data", "copy")
	database.Start(t)
	s.mustRecover(t)
	s.deleteAs(t, configMaps, o, background)
	// One dependent stays behind: the collector goes on knowing that its owner is gone.
	s.awaitCount(t, 1, secrets, ns)

	database.Stop()
	down := int64(len(s.logFrom(0)))
	database.Prepare(t, "rm", "-r", "data")
	database.Prepare(t, "mv", "copy", "data")
	database.Start(t)
	const again, running = "the collector begins again with what is there then", "collector is running"
	await(t, "another collector to begin", func(context.Context) (bool, any) {
		return strings.Contains(string(s.logFrom(down)), running), string(s.logFrom(down))
	})
	// On a busy machine the server may lose its lease in the outage, and with it the collector that would have noticed.
	if log := string(s.logFrom(down)); !strings.Contains(log, again) && !strings.Contains(log, "no longer leading") {
		t.Errorf("a collector began, and nobody knows why:\n%s", log)
	}
	await(t, "the server to collect again", func(ctx context.Context) (bool, any) {
		collects, err := s.collects(ctx)
		return collects, err
	})
	s.barrier(t, secrets, ns)
	s.mustExist(t, configMaps, o)
	if n := s.count(t, secrets, ns); n != 21 {
		t.Errorf("%d of 21 dependents are left", n)
	}
	s.deleteAs(t, configMaps, o, background)
	s.awaitCount(t, 1, secrets, ns)
	s.release(t, secrets, held)
	s.awaitCount(t, 0, secrets, ns)
}

// TestFrozenLeaderWritesNothingAfterItsLease suspends the leader in the middle of a cascade for longer than its lease, and wakes it. By then the
// other server leads, and its collector is paused. The woken process does not know of the pause, and still has work in
// its queue and proof for it. Without the lease it must not write.
func TestFrozenLeaderWritesNothingAfterItsLease(t *testing.T) {
	t.Parallel() // it mostly waits
	if testing.Short() {
		t.Skip("needs etcd and waits for a lease to run out")
	}
	const n = 500
	_, endpoint := databases.Etcd(t)
	leader := start(t, "--datastore-endpoint", endpoint, "--gc-workers=1") // one, so that one request may be under way
	await(t, "the first server to lead", func(ctx context.Context) (bool, any) {
		l, err := leader.collects(ctx)
		return l, err
	})
	mustRefuseStrangers(t, endpoint)
	other := leader.beside(t, "--datastore-endpoint", endpoint, "--gc-workers=1")
	leader.mustBeOneClusterWith(t, other)
	ns := other.namespace(t, "frozen")
	o := other.create(t, configMaps, ns, "owner")
	other.createMany(t, n, configMaps, ns, "dependent", owner(o))
	// The leader's rules hold, whichever server is asked.
	if out, errs, code := other.run(t, "why", "configmaps/"+o.GetName(), "-n", ns, "-o", "json"); code != 0 || !strings.Contains(out, `"rules": "reap"`) {
		t.Errorf("what a server says that waits to lead: %d, %s%s", code, out, errs)
	}
	deleted := other.watchDeletions(t, configMaps, ns)
	other.delete(t, configMaps, o)
	for range n / 10 {
		deleted()
	}
	leader.signal(t, syscall.SIGSTOP)
	if out := other.must(t, "pause", "--reason", "the leader is frozen"); !strings.Contains(out, "this server does not lead") {
		t.Errorf("a pause where another server leads: %s", out)
	}
	await(t, "the other server to lead", func(ctx context.Context) (bool, any) {
		l, err := other.collects(ctx)
		return l, err
	})
	left := other.count(t, configMaps, ns)
	if left < n/2 {
		t.Fatalf("%d of %d dependents were left: the cascade was not interrupted", left, n)
	}
	leader.signal(t, syscall.SIGCONT)
	await(t, "the woken server to know that it does not lead", func(ctx context.Context) (bool, any) {
		l, err := leader.collects(ctx)
		return err == nil && !l, err
	})
	// What had been received by the API server when the process was suspended may take effect: one request, of one worker.
	if now := other.count(t, configMaps, ns); now < left-1 {
		t.Errorf("the woken server deleted %d objects without a lease, in a pause", left-now)
	}
	if l, err := other.collects(t.Context()); !l || err != nil {
		t.Errorf("the other server does not lead any more (%v)", err)
	}
	other.must(t, "resume")
	other.awaitCount(t, 0, configMaps, ns)
	leader.mustWork(t)
}
