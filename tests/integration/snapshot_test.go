package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// ok runs the program and wants it to succeed.
func ok(t *testing.T, args ...string) result {
	t.Helper()
	r := run(t, args...)
	if r.code != 0 {
		t.Fatalf("reap %s: exit code %d: %s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return r
}

// saved is what `reap snapshot save -o json` prints, as far as tests look at it.
type saved struct {
	Path     string `json:"path"`
	Keys     int64  `json:"keys"`
	Revision int64  `json:"revision"`
	PKI      bool   `json:"pki"`
}

// snapshot saves one into the server's own folder.
func (s *server) snapshot(t *testing.T) (made saved) {
	t.Helper()
	r := ok(t, "snapshot", "save", "--data-dir", s.dir, "--config=", "-o", "json")
	if err := json.Unmarshal([]byte(r.stdout), &made); err != nil {
		t.Fatalf("%s: %v", r.stdout, err)
	}
	return made
}

// TestSnapshotIsRestored saves a running server, goes on changing it, restores it, and looks at all that was promised:
// the objects are those of then, the old data is kept, clients list anew, and nothing is collected until somebody says so.
func TestSnapshotIsRestored(t *testing.T) {
	t.Parallel()
	s := start(t)
	ns := s.namespace(t, "snapshot")
	o := s.create(t, configMaps, ns, "owner")
	s.createMany(t, 300, configMaps, ns, "dependent", owner(o))
	s.createMany(t, 50, secrets, ns, "unowned")
	s.create(t, configMaps, ns, "kept")
	before := s.inventory(t)
	made := s.snapshot(t)
	if !made.PKI || made.Keys < 350 || !strings.HasPrefix(made.Path, filepath.Join(s.dir, "snapshots")) {
		t.Errorf("%+v", made)
	}
	if info, err := os.Stat(made.Path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the snapshot's mode is %v (%v)", info.Mode(), err)
	}
	list, err := s.meta.Resource(configMaps.gvr).Namespace(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}

	// What comes after the snapshot is not in it.
	s.delete(t, configMaps, o)
	s.awaitCount(t, 1, configMaps, ns)
	later := s.create(t, configMaps, ns, "later")
	gone := s.version(t, configMaps)
	ca, err := os.ReadFile(filepath.Join(s.dir, "pki", "server-ca.crt"))
	if err != nil {
		t.Fatal(err)
	}

	// Beside a live server nothing is restored, and a damaged snapshot changes nothing.
	untouched := files(t, filepath.Join(s.dir, "pki"))
	run(t, "snapshot", "restore", made.Path, "--data-dir", s.dir, "--config=").mustFail(t, "another reap server", s.dir)
	s.stop(t)
	raw, err := os.ReadFile(made.Path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(t.TempDir(), "damaged.snapshot")
	if err := os.WriteFile(damaged, raw[:len(raw)-10], 0o600); err != nil {
		t.Fatal(err)
	}
	whole := files(t, s.dir)
	run(t, "snapshot", "restore", damaged, "--data-dir", s.dir, "--config=").mustFail(t, "the snapshot is damaged")
	whole.mustBe(t, files(t, s.dir))
	untouched.mustBe(t, files(t, filepath.Join(s.dir, "pki")))

	said := ok(t, "snapshot", "restore", made.Path, "--data-dir", s.dir, "--config=").stdout
	for _, kept := range []string{storeFolder(), "pki"} {
		found, err := filepath.Glob(filepath.Join(s.dir, kept+".before-restore-*"))
		if err != nil || len(found) != 1 || !strings.Contains(said, found[0]) {
			t.Errorf("%s is kept as %q (%v), and it says %s", kept, found, err, said)
		}
	}
	mark := int64(len(s.logFrom(0)))
	s.restart(t)
	s.awaitControllersHeld(t, mark)

	// Held: not even what lost its owner goes, nor does a namespace.
	pausedBy := func() string {
		return run(t, "status", "--data-dir", s.dir, "--config=").stdout
	}
	if got := pausedBy(); !strings.Contains(got, "restored from the snapshot") || !strings.Contains(got, "reap lint") || !strings.Contains(got, "reap resume") {
		t.Errorf("the status says %s", got)
	}
	before.mustBe(t, s.inventory(t), nil)
	if s.named(t, configMaps, later.GetNamespace(), later.GetName()) {
		t.Error("what was made after the snapshot is there")
	}
	if raw, err := os.ReadFile(filepath.Join(s.dir, "pki", "server-ca.crt")); err != nil || !bytes.Equal(raw, ca) {
		t.Errorf("the authority is another (%v)", err)
	}
	for _, version := range []string{list.ResourceVersion, gone} {
		s.mustListAnew(t, ns, version)
	}
	o = s.read(t, configMaps, ns, "owner")
	s.delete(t, configMaps, o)
	doomed := s.namespace(t, "doomed")
	if err := s.kube.CoreV1().Namespaces().Delete(t.Context(), doomed, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// Also after another start it is held.
	s.stop(t)
	mark = int64(len(s.logFrom(0)))
	s.restart(t)
	s.awaitControllersHeld(t, mark)
	if got := pausedBy(); !strings.Contains(got, "restored from the snapshot") {
		t.Errorf("after another start the status says %s", got)
	}
	await(t, "the collector to know what it may not collect", func(context.Context) (bool, any) {
		st := s.status(t)
		return st.Synced && len(st.Queues) > 0 && st.Queues[0].Length >= 300, st
	})
	if got := s.count(t, configMaps, ns); got != 301 {
		t.Errorf("%d objects are left while the collector is held, want 301", got)
	}
	if _, err := s.kube.CoreV1().Namespaces().Get(t.Context(), doomed, metav1.GetOptions{}); err != nil {
		t.Errorf("the namespace has gone: %v", err)
	}
	// The controller of namespaces takes seconds to delete one. The log says whether it could have begun.
	if bytes.Contains(s.logFrom(0), []byte(controllersReleased)) {
		t.Error("the controllers that delete are released before anybody has said so")
	}

	ok(t, "resume", "--data-dir", s.dir, "--config=")
	s.awaitCount(t, 1, configMaps, ns)
	s.awaitNamespaceGone(t, doomed)
	if !bytes.Contains(s.logFrom(mark), []byte(controllersReleased)) {
		t.Error("the log does not say that the controllers that delete are released")
	}
	s.mustWork(t)
}

// What the log says of the controllers that delete objects.
const (
	controllersHeld     = "the controllers that delete are held until"
	controllersReleased = "the controllers that delete are released"
)

// awaitControllersHeld returns once the process whose log begins at an offset has learnt that the controllers are held.
func (s *server) awaitControllersHeld(t *testing.T, mark int64) {
	t.Helper()
	await(t, "the controllers to be held", func(context.Context) (bool, any) {
		return bytes.Contains(s.logFrom(mark), []byte(controllersHeld)), nil
	})
}

// named reports whether there is an object of a name.
func (s *server) named(t *testing.T, k kind, ns, name string) bool {
	t.Helper()
	_, err := s.meta.Resource(k.gvr).Namespace(ns).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

// A snapshot from standard input is restored on another machine. Without keys in the snapshot the server makes its own,
// and with --gc-after-restore=run nothing waits.
func TestSnapshotIsRestoredOnAnotherMachine(t *testing.T) {
	t.Parallel()
	s := start(t)
	ns := s.namespace(t, "elsewhere")
	s.createMany(t, 20, configMaps, ns, "solid", owner(s.create(t, configMaps, ns, "owner")))
	made := ok(t, "snapshot", "save", "--without-pki", "--kubeconfig", s.Kubeconfig, "--config=", "-")

	other := newServer(t.TempDir(), "--gc-after-restore=run")
	cmd := reap([]string{"HOME=" + t.TempDir()}, "snapshot", "restore", "-", "--data-dir", other.dir, "--config=", "--engine", engineName())
	cmd.Stdin = strings.NewReader(made.stdout)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	other.start(t)
	if got := other.count(t, configMaps, ns); got != 21 {
		t.Errorf("%d objects, want 21", got)
	}
	if got := ok(t, "status", "--data-dir", other.dir, "--config=").stdout; strings.Contains(got, "paused") {
		t.Errorf("the collector waits: %s", got)
	}
	other.mustWork(t)
}

// TestSnapshotRequiresItsOwnPermission: a user who may read the reports may not make a snapshot, which holds every Secret.
func TestSnapshotRequiresItsOwnPermission(t *testing.T) {
	s := shared(t)
	k := s.kube
	role := func(name, verb, path string) {
		t.Helper()
		r, err := k.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{path}, Verbs: []string{verb}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := k.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx := context.WithoutCancel(t.Context())
			if err := k.RbacV1().ClusterRoleBindings().Delete(ctx, b.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			if err := k.RbacV1().ClusterRoles().Delete(ctx, r.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	role("snapshot-reporter", "get", "/reap/v1/*")
	role("snapshot-saver", "post", "/reap/v1/snapshot")
	ask := func(user, method string) int {
		t.Helper()
		config := rest.CopyConfig(s.config)
		config.Impersonate = rest.ImpersonationConfig{UserName: user}
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/reap/v1/snapshot", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }() // only read
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Error(err)
		}
		return resp.StatusCode
	}
	await(t, "the roles to be known", func(context.Context) (bool, any) {
		got := ask("snapshot-saver", http.MethodPost)
		return got == http.StatusOK, got
	})
	await(t, "the roles to be known", func(context.Context) (bool, any) {
		got := ask("snapshot-reporter", http.MethodGet)
		return got == http.StatusMethodNotAllowed, got
	})
	for user, want := range map[string]int{"snapshot-reporter": http.StatusForbidden, "snapshot-nobody": http.StatusForbidden} {
		if got := ask(user, http.MethodPost); got != want {
			t.Errorf("%s: %d, want %d", user, got, want)
		}
	}
	resp, err := s.anonymous(t).Post(s.URL+"/reap/v1/snapshot", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without credentials: %s", resp.Status)
	}
}

// TestScheduledSnapshots are made by the server, and can be listed and pruned.
func TestScheduledSnapshots(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "elsewhere")
	s := start(t, "--snapshot-interval=24h", "--snapshot-dir", dir, "--snapshot-retain=2")
	type listed struct {
		Snapshots []struct {
			Name    string `json:"name"`
			PKI     bool   `json:"pki"`
			Keys    int64  `json:"keys"`
			Problem string `json:"problem"`
		} `json:"snapshots"`
	}
	list := func() (l listed) {
		t.Helper()
		r := ok(t, "snapshot", "list", dir, "--check", "--config=", "-o", "json")
		if err := json.Unmarshal([]byte(r.stdout), &l); err != nil {
			t.Fatal(err)
		}
		return l
	}
	await(t, "the first snapshot", func(context.Context) (bool, any) {
		found, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
		return len(found) == 1, err
	})
	if l := list(); len(l.Snapshots) != 1 || !l.Snapshots[0].PKI || l.Snapshots[0].Keys == 0 || l.Snapshots[0].Problem != "" {
		t.Errorf("%+v", l)
	}
	for range 2 {
		ok(t, "snapshot", "save", dir, "--data-dir", s.dir, "--config=")
	}
	run(t, "snapshot", "prune", dir, "--retain", "1", "--config=").mustFail(t, "--yes", "--dry-run")
	names := list().Snapshots
	if got := ok(t, "snapshot", "prune", dir, "--retain", "1", "--dry-run", "--config=").stdout; strings.Count(got, "would be removed") != 2 || len(list().Snapshots) != 3 {
		t.Errorf("a dry run says %s", got)
	}
	ok(t, "snapshot", "prune", dir, "--retain", "1", "--yes", "--config=")
	if l := list(); len(l.Snapshots) != 1 || l.Snapshots[0].Name != names[2].Name {
		t.Errorf("%+v are left of %+v", l, names)
	}
}

// TestServerDoesNotStartWithoutItsDatabase: with an empty one, clients would take all objects for deleted.
func TestServerDoesNotStartWithoutItsDatabase(t *testing.T) {
	t.Parallel()
	s := start(t)
	ns := s.namespace(t, "vanished")
	s.create(t, configMaps, ns, "there")
	s.stop(t)
	db := filepath.Join(s.dir, storeFolder())
	if err := os.Rename(db, db+".away"); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"server", "--config="}, s.args...)
	before := files(t, s.dir)
	run(t, args...).mustFail(t, "empty or missing", "reap snapshot restore", "--new-store")
	before.mustBe(t, files(t, s.dir))
	// A file without anything in it is no better than none.
	if err := os.MkdirAll(db, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(db, "state.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, args...).mustFail(t, "empty or missing")
	if err := os.RemoveAll(db); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(db+".away", db); err != nil {
		t.Fatal(err)
	}
	s.restart(t)
	if !s.named(t, configMaps, ns, "there") {
		t.Error("the object of the snapshot is missing")
	}
	s.stop(t)
	if err := os.RemoveAll(db); err != nil {
		t.Fatal(err)
	}
	s.restart(t, append(slices.Clone(s.args), "--new-store")...)
	s.mustWork(t)
}

// TestDamagedDatabaseIsNotServed, and stays as it is.
func TestDamagedDatabaseIsNotServed(t *testing.T) {
	t.Parallel()
	aboutSQLite(t)
	s := start(t)
	ns := s.namespace(t, "damaged")
	s.createMany(t, 300, configMaps, ns, "test")
	made := s.snapshot(t)
	s.stop(t)
	// A restored database has no log beside it that would show what the file should hold.
	ok(t, "snapshot", "restore", made.Path, "--data-dir", s.dir, "--config=")
	path := filepath.Join(s.dir, "db", "state.db")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	flipped := bytes.Clone(whole)
	for i := page; i < len(flipped); i += page { // the header of each page but the first
		flipped[i] ^= 0xff
	}
	for what, damaged := range map[string][]byte{
		"truncated":    whole[:len(whole)/2/page*page],
		"bits flipped": flipped,
		"no header":    append(make([]byte, page), whole[page:]...),
	} {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, append([]string{"server", "--config="}, s.args...)...).mustFail(t, path, "cannot be used", "reap snapshot restore")
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, damaged) {
			t.Errorf("%s: the file is another now (%v)", what, err)
		}
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	s.restart(t)
	if got := s.count(t, configMaps, ns); got != 300 {
		t.Errorf("%d objects, want 300", got)
	}
}
