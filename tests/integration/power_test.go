package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/tests/powercut"
	"github.com/reap-dev/reap/tests/size"
)

// poweredGroup is an owner with dependents, and how long the journal was when something happened to it.
type poweredGroup struct {
	uids map[string]types.UID // by name
	// made is when all of it was acknowledged. The deletion of the owner began and was acknowledged then; 0 if it
	// never did.
	made, deleting, deleted int64
}

// TestPowerCutsOfAServer cuts the power at random moments of a server with users and cascades. The server starts by
// itself; everything that was acknowledged is there, and each cascade that was begun ends.
func TestPowerCutsOfAServer(t *testing.T) {
	t.Parallel()
	aboutSQLite(t)
	s := newServer(t.TempDir())
	journal := filepath.Join(s.top, "journal")
	s.env = append(s.env, powercut.Recorded(t, journal)...)
	powerCuts(t, s, journal, func(next *server, ops []powercut.Op, random *rand.Rand) {
		if out, err := exec.Command("cp", "-a", s.dir, next.dir).CombinedOutput(); err != nil {
			t.Fatalf("copying the data directory: %v\n%s", err, out)
		}
		database := filepath.Join(next.dir, "db")
		if err := os.RemoveAll(database); err != nil {
			t.Fatal(err)
		}
		powercut.Write(t, database, powercut.After(ops, random))
	})
}

const onEtcd = "--datastore-endpoint=etcd"

// TestPowerCutsOfAServerOnEtcd does the same on the embedded etcd. All of the data directory is as the power cut leaves it: the
// keys and certificates, the kubeconfig and the records of the server too.
func TestPowerCutsOfAServerOnEtcd(t *testing.T) {
	t.Parallel()
	s := newServer(t.TempDir(), onEtcd)
	journal := filepath.Join(s.top, "journal")
	s.recordingDisk(t, journal)
	powerCuts(t, s, journal, func(next *server, ops []powercut.Op, random *rand.Rand) {
		powercut.WriteFiles(t, next.dir, powercut.Files(ops, random))
	}, onEtcd)
}

// recordingDisk makes the data directory of a server that has not started a file system that records and fails on demand.
func (s *server) recordingDisk(t *testing.T, journal string) *powercut.Disk {
	t.Helper()
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return powercut.Mount(t, s.dir, journal)
}

// powerCuts runs a server whose files are recorded into a journal, and cuts the power at random moments. write writes the
// data directory that is left after some operations to that of the next server, which has these flags.
func powerCuts(t *testing.T, s *server, journal string, write func(next *server, ops []powercut.Op, random *rand.Rand), flags ...string) {
	t.Helper()
	const dependents = 6
	seed := seedOf(t)
	random := rand.New(rand.NewPCG(seed, 0))
	s.start(t)
	now := func() int64 {
		t.Helper()
		info, err := os.Stat(journal)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	ns := s.namespace(t, "power")
	begun := now()
	var groups []*poweredGroup
	var owners []*unstructured.Unstructured
	for i := range size.Of(10, 20, 40) {
		g := &poweredGroup{uids: map[string]types.UID{}}
		o := s.create(t, configMaps, ns, fmt.Sprintf("owner-%d", i))
		name := fmt.Sprintf("of-%d", i)
		s.createMany(t, dependents, configMaps, ns, name, owner(o))
		g.made = now()
		all, err := s.uids(t.Context(), configMaps, ns)
		if err != nil {
			t.Fatal(err)
		}
		g.uids[o.GetName()] = o.GetUID()
		for j := range dependents {
			g.uids[fmt.Sprintf("%s-%d", name, j)] = all[fmt.Sprintf("%s-%d", name, j)]
		}
		groups, owners = append(groups, g), append(owners, o)
		if i%3 == 2 { // the one before it is deleted meanwhile
			doomed := groups[i-1]
			doomed.deleting = now()
			s.delete(t, configMaps, owners[i-1])
			doomed.deleted = now()
		}
	}
	s.kill()
	ops := powercut.Read(t, journal)
	first := sort.Search(len(ops), func(i int) bool { return ops[i].End >= begun })

	cuts, acknowledged := size.Of(1, 2, 4), 0
	for range cuts {
		at := first + 1 + random.IntN(len(ops)-first)
		end := ops[at-1].End
		next := newServer(t.TempDir(), flags...)
		write(next, ops[:at], random)
		next.start(t)
		next.barrier(t, configMaps, ns)
		await(t, "the end of the cascades", func(ctx context.Context) (bool, any) {
			there, err := next.uids(ctx, configMaps, ns)
			for i, g := range groups {
				if n := g.left(there); n != 0 && there[fmt.Sprintf("owner-%d", i)] == "" {
					return false, fmt.Sprintf("%d dependents of owner %d", n, i)
				}
			}
			return err == nil, err
		})
		there, err := next.uids(t.Context(), configMaps, ns)
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range groups {
			switch n := g.left(there); {
			case g.deleted > 0 && g.deleted <= end:
				acknowledged++
				if n > 0 {
					t.Errorf("owner %d was deleted, and %d objects are there", i, n)
				}
			case g.deleting > 0 && g.deleting <= end: // it may have been
			case g.made <= end:
				acknowledged += len(g.uids)
				if n != len(g.uids) {
					t.Errorf("%d of %d acknowledged objects of group %d are there", n, len(g.uids), i)
				}
			}
		}
		next.stop(t)
		if t.Failed() {
			t.Fatalf("the power was cut after %d of %d operations", at, len(ops))
		}
	}
	size.Power(t, fmt.Sprintf("seed=%d cuts=%d acknowledged=%d lost=0", seed, cuts, acknowledged))
}

// left counts the objects of the group that are there.
func (g *poweredGroup) left(there map[string]types.UID) (n int) {
	for name, uid := range g.uids {
		if there[name] == uid {
			n++
		}
	}
	return n
}
