package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/tests/databases"
)

// TestEmbeddedEtcdKeepsObjectsAndEndsCascades does what the other datastores are tried with.
func TestEmbeddedEtcdKeepsObjectsAndEndsCascades(t *testing.T) {
	t.Parallel()
	s := interrupt(t, killed, []string{"--datastore-endpoint=etcd"}, &interruptedCascade{n: 200})
	s.mustDeleteByEveryPolicy(t)
	s.mustKeepLargeObjects(t)
	s.mustServeWhatHasNoStore(t)
	sockets, err := filepath.Glob(filepath.Join(s.dir, "*.sock"))
	if err != nil || !slices.Equal(sockets, []string{filepath.Join(s.dir, "etcd.sock")}) {
		t.Errorf("the sockets: %v, %v", sockets, err)
	}
}

// TestStoreGrowsIntoACluster does what docs/datastore.md says, with etcd's own tools: the store of one machine becomes a cluster of three members, of which
// one may be away.
func TestStoreGrowsIntoACluster(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs etcd")
	}
	s := start(t, "--datastore-endpoint=etcd")
	ns := s.namespace(t, "grown")
	o := s.create(t, configMaps, ns, "owner")
	s.createMany(t, 50, configMaps, ns, "dependent", owner(o))
	s.createMany(t, 50, secrets, ns, "unowned")
	socket := exec.Command(databases.EtcdTool(t, "etcdctl"), "--endpoints=unix://"+filepath.Join(s.dir, "etcd.sock"), "endpoint", "status")
	if out, err := socket.CombinedOutput(); err != nil || !strings.Contains(string(out), "3.7") {
		t.Errorf("%s: %v, %s", socket, err, out)
	}
	before := s.inventory(t)
	s.stop(t)

	store := filepath.Join(t.TempDir(), "store.db")
	ok(t, "db", "export", "--format", "etcd", "--data-dir", s.dir, "--config=", store)
	members, endpoints := databases.EtcdCluster(t, store)
	s.restart(t, "--data-dir", s.dir, "--https-listen-port", "0", "--datastore-endpoint", endpoints)
	before.mustBe(t, s.inventory(t), nil)
	members[1].Stop()
	s.delete(t, configMaps, o)
	s.awaitCount(t, 0, configMaps, ns)
	if n := s.count(t, secrets, ns); n != 50 {
		t.Errorf("%d of 50 objects without an owner are left", n)
	}
	s.mustWork(t)
	s.stop(t) // while it has a datastore
}

func TestWhatHasNoStoreIsServed(t *testing.T) {
	shared(t).mustServeWhatHasNoStore(t)
}

// mustServeWhatHasNoStore looks at what of the API server asks the datastore without the store of a resource: the allocators of Services,
// the checks, and the size in the metrics.
func (s *server) mustServeWhatHasNoStore(t *testing.T) {
	t.Helper()
	ns := s.namespace(t, "services")
	port := corev1.ServicePort{Port: 80}
	service, err := s.kube.CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "reached"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{port}},
	}, metav1.CreateOptions{})
	if err != nil || service.Spec.ClusterIP == "" || service.Spec.Ports[0].NodePort == 0 {
		t.Errorf("a Service: %+v, %v", service, err)
	}
	for _, path := range []string{"/readyz/etcd", "/readyz/etcd-readiness"} {
		if _, err := s.get(t.Context(), path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	size := regexp.MustCompile(`(?m)^apiserver_storage_size_bytes\{[^}]*\} [1-9]`)
	await(t, "the size of the datastore in the metrics", func(ctx context.Context) (bool, any) {
		metrics, err := s.get(ctx, "/metrics")
		return err == nil && size.Match(metrics), err
	})
}

// TestStoreMovesBetweenEngines: a snapshot makes an etcd store or an SQLite database of what it holds, and neither engine
// starts on a data directory of the other.
func TestStoreMovesBetweenEngines(t *testing.T) {
	t.Parallel()
	s := start(t, "--datastore-endpoint=etcd", "--gc-after-restore=run")
	onEtcd, onSQLite := s.args, slices.DeleteFunc(slices.Clone(s.args), func(arg string) bool { return strings.HasPrefix(arg, "--datastore-endpoint") })
	log := string(s.logFrom(0))
	if !strings.Contains(log, `msg="the data directory is new" datastore=etcd durability="each write is synced`) {
		t.Errorf("it does not say what it has chosen:\n%s", log)
	}
	ns := s.namespace(t, "moved")
	s.createMany(t, 50, configMaps, ns, "dependent", owner(s.create(t, configMaps, ns, "owner")))
	s.createMany(t, 50, secrets, ns, "unowned")
	wrong := func(args []string, says ...string) {
		t.Helper()
		before := files(t, s.dir)
		run(t, append([]string{"server", "--config="}, args...)...).mustFail(t, append(says, s.dir)...)
		before.mustBe(t, files(t, s.dir))
	}
	move := func(to []string, flags ...string) {
		t.Helper()
		before := s.inventory(t)
		made := s.snapshot(t)
		s.stop(t)
		ok(t, append([]string{"snapshot", "restore", made.Path, "--data-dir", s.dir, "--config="}, flags...)...)
		s.restart(t, to...)
		before.mustBe(t, s.inventory(t), nil)
		s.mustWork(t)
	}
	move(onEtcd) // as it was
	run(t, "db", "compact", "--data-dir", s.dir, "--config=").mustFail(t, "an etcd in "+s.dir, "etcdctl")
	run(t, "db", "check", "--data-dir", s.dir, "--config=").mustFail(t, "while a server uses it", s.dir)
	s.stop(t)
	ok(t, "db", "check", "--data-dir", s.dir, "--config=")
	wrong(onSQLite, "holds an etcd store", "--datastore-endpoint=etcd")
	s.restart(t, onEtcd...)
	move(onSQLite, "--engine=sqlite")
	s.stop(t)
	wrong(onEtcd, "--datastore-endpoint", "holds an SQLite database")
	s.restart(t, onSQLite...)
	move(onEtcd, "--engine", "etcd")
	run(t, "snapshot", "restore", "none", "--data-dir", s.dir, "--config=", "--engine=ectd").mustFail(t, "--engine", `"ectd"`)

	// Its files away are no empty cluster.
	s.stop(t)
	if err := os.Rename(filepath.Join(s.dir, "etcd"), filepath.Join(s.dir, "away")); err != nil {
		t.Fatal(err)
	}
	wrong(onEtcd, "empty or missing")
	if err := os.Rename(filepath.Join(s.dir, "away"), filepath.Join(s.dir, "etcd")); err != nil {
		t.Fatal(err)
	}
	s.restart(t, onEtcd...)
	s.mustWork(t)
}
