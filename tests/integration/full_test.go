package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// ownDisk mounts a small file system as the data directory of a server that has not started.
func (s *server) ownDisk(t *testing.T, size string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a disk to fill")
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", s.dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		t.Fatalf("mounting a small disk: %v", err)
	}
	t.Cleanup(func() {
		s.kill()
		if err := syscall.Unmount(s.dir, 0); err != nil {
			t.Errorf("unmounting the small disk: %v", err)
		}
	})
}

// fillDisk takes the room that is left in the data directory; removing the file gives it back.
func (s *server) fillDisk(t *testing.T) (filler string) {
	t.Helper()
	filler = filepath.Join(s.dir, "filler")
	f, err := os.OpenFile(filler, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return filler
}

// acknowledged are the ConfigMaps of a namespace that the server has said it keeps.
type acknowledged map[string]types.UID

func (a acknowledged) create(ctx context.Context, s *server, ns, name string) error {
	o, err := s.kube.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"x": strings.Repeat("x", 8<<10)},
	}, metav1.CreateOptions{})
	if err == nil {
		a[name] = o.UID
	}
	return err
}

// mustBeThere fails unless the server has what it has acknowledged, and nothing else.
func (a acknowledged) mustBeThere(t *testing.T, s *server, ns string) {
	t.Helper()
	list, err := s.meta.Resource(configMaps.gvr).Namespace(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("listing with a full disk: %v", err)
	}
	there := map[string]types.UID{}
	for _, o := range list.Items {
		if o.Name != rootCA {
			there[o.Name] = o.UID
		}
	}
	for name, uid := range a {
		if there[name] != uid {
			t.Errorf("%s was acknowledged and is not there", name)
		}
	}
	if len(there) != len(a) {
		t.Errorf("%d objects were acknowledged, %d are there", len(a), len(there))
	}
}

// TestFullDisk: writes are refused with 507 and the name of the disk, reads and watches go on, and so do deletions with
// all that hangs on them; when there is room, the same process takes writes again. Nothing that was acknowledged is
// lost, and nothing is collected that has an owner.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	aboutSQLite(t)
	s := newServer(t.TempDir(), "--datastore-reserve=8")
	s.ownDisk(t, "64m")
	s.start(t)
	reserve := filepath.Join(s.dir, "db", "reserve")
	await(t, "the reserve", func(context.Context) (bool, any) { _, err := os.Stat(reserve); return err == nil, err })
	stays, goes, ns := s.namespace(t, "stays"), s.namespace(t, "goes"), s.namespace(t, "full")
	const dependents = 30
	kept := s.create(t, secrets, stays, "owner")
	s.createMany(t, dependents, configMaps, stays, "dependent", owner(kept))
	doomed := s.create(t, secrets, goes, "owner")
	s.createMany(t, dependents, configMaps, goes, "dependent", owner(doomed))
	leaving := s.newLeaving(t)
	pid := s.cmd.Process.Pid
	watch, err := s.kube.CoreV1().ConfigMaps(goes).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()

	filler := s.fillDisk(t)
	acked := acknowledged{}
	var refused error
	for i := 0; refused == nil; i++ {
		refused = acked.create(t.Context(), s, ns, fmt.Sprintf("a-%d", i))
	}
	s.mustSayFull(t, "creating", refused)
	for name := range acked {
		_, err := s.kube.CoreV1().ConfigMaps(ns).Patch(t.Context(), name, types.MergePatchType, []byte(`{"data":{"y":"y"}}`), metav1.PatchOptions{})
		s.mustSayFull(t, "patching", err)
		break
	}
	acked.mustBeThere(t, s, ns)
	if _, err := os.Stat(reserve); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the reserve is still there: %v", err)
	}
	if _, err := s.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/", Verb: "get"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Errorf("a review, which is not stored, is refused: %v", err)
	}
	ready, err := s.kube.Discovery().RESTClient().Get().AbsPath("/readyz").Param("verbose", "").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(ready), "reap-datastore (the disk of "+filepath.Join(s.dir, "db")) {
		t.Errorf("/readyz says %s (%v)", ready, err)
	}

	// The deletion, and what the collector does about it, have the reserve to themselves.
	s.deleteWith(t, secrets, doomed, metav1.DeleteOptions{PropagationPolicy: &foreground})
	s.awaitGone(t, secrets, doomed)
	for gone := 0; gone < dependents; {
		e, open := <-watch.ResultChan()
		if !open {
			t.Fatalf("the watch ended after %d of %d deletions", gone, dependents)
		}
		if e.Type == "DELETED" {
			gone++
		}
	}
	leaving.mustGo(t)
	s.mustSayFull(t, "creating after deletions", acked.create(t.Context(), s, ns, "after-deletions"))

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	await(t, "a write once there is room", func(ctx context.Context) (bool, any) {
		err := acked.create(ctx, s, ns, "with-room")
		return err == nil, err
	})
	if s.cmd.Process.Pid != pid || !s.running() {
		t.Error("the server has not gone on by itself")
	}
	if info, err := os.Stat(reserve); err != nil || info.Size() != 8<<20 {
		t.Errorf("the reserve is not whole again: %v", err)
	}
	acked.mustBeThere(t, s, ns)
	// What is made now without an owner is collected, and what has one is not.
	s.create(t, configMaps, stays, "orphaned", nobody(secrets))
	await(t, "the collection of an object without owner", func(ctx context.Context) (bool, any) {
		_, err := s.kube.CoreV1().ConfigMaps(stays).Get(ctx, "orphaned", metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
	left, err := s.uids(t.Context(), configMaps, stays)
	if err != nil || len(left) != dependents {
		t.Errorf("%d of %d objects whose owner is there are left (%v)", len(left), dependents, err)
	}
	// Neither is anything lost that only memory had.
	s.stop(t)
	// The write that has found the disk full is told by its key alone.
	if log := s.logFrom(0); !bytes.Contains(log, []byte("the datastore cannot write")) || !bytes.Contains(log, []byte("/registry/configmaps/"+ns)) ||
		bytes.Contains(log, []byte(strings.Repeat("x", 100))) {
		t.Error("the log does not say which key could not be written, or has what an object holds")
	}
	s.restart(t)
	acked.mustBeThere(t, s, ns)
}

// leaving are objects whose deletion takes more writes than the DELETE: of the API server, of controllers and of the user.
type leaving struct {
	s                *server
	ns, other        string
	held, claim, job *unstructured.Unstructured
	pod, crd         *unstructured.Unstructured
}

func (s *server) newLeaving(t *testing.T) leaving {
	t.Helper()
	l := leaving{s: s, ns: s.namespace(t, "full-ends"), other: s.namespace(t, "full-leaves")}
	l.held = s.createHeld(t, configMaps, l.other, "held")
	l.claim = s.from(t, claims, l.other, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: test}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`)
	job := `
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: test, image: test}]}}}
`
	l.job = s.from(t, jobs, l.other, fmt.Sprintf(job, "goes"))
	s.from(t, jobs, l.other, fmt.Sprintf(job, "stays"))
	var gaskets kind
	gaskets, l.crd = s.define(t, "Namespaced", "gaskets", "Gasket")
	for _, ns := range []string{l.ns, l.other} {
		s.create(t, gaskets, ns, "one")
		s.createMany(t, 10, configMaps, ns, "content")
	}
	await(t, "the pod of each job", func(ctx context.Context) (bool, any) {
		list, err := s.dyn.Resource(pods.gvr).Namespace(l.other).List(ctx, metav1.ListOptions{LabelSelector: "job-name=stays"})
		if err != nil || len(list.Items) != 1 {
			return false, err
		}
		l.pod = &list.Items[0]
		n, err := s.uids(ctx, pods, l.other)
		return len(n) == 2, err
	})
	return l
}

// mustGo deletes them, and fails unless all of them go.
func (l leaving) mustGo(t *testing.T) {
	t.Helper()
	s := l.s
	s.deleteAs(t, jobs, l.job, background)
	s.delete(t, pods, l.pod) // that of the job that stays, and cannot make another one
	s.delete(t, claims, l.claim)
	s.delete(t, definitions, l.crd)
	s.delete(t, configMaps, l.held)
	if _, err := s.kube.CoreV1().ConfigMaps(l.other).Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("taking a finalizer off: %v", err)
	}
	s.deleteNamespace(t, l.ns)
	s.awaitGone(t, configMaps, l.held)
	s.awaitGone(t, claims, l.claim)
	s.awaitGone(t, definitions, l.crd)
	s.awaitCount(t, 0, pods, l.other)
}

// mustSayFull fails unless err is the answer to a write with a full disk.
func (s *server) mustSayFull(t *testing.T, doing string, err error) {
	t.Helper()
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Code != http.StatusInsufficientStorage ||
		!strings.Contains(status.ErrStatus.Message, "the disk of "+filepath.Join(s.dir, "db")) {
		t.Errorf("%s with a full disk: %v", doing, err)
	}
}

// TestStartOnAFullDisk: with the room of the reserve the server starts, and refuses writes but for deletions until there
// is more; without a reserve the start fails at once and says which disk is full. Nothing is lost either way.
func TestStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	aboutSQLite(t)
	for name, c := range map[string]struct {
		reserve string
		starts  bool
	}{"Reserve": {"8", true}, "NoReserve": {"0", false}} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t.TempDir(), "--datastore-reserve="+c.reserve)
			s.ownDisk(t, "64m")
			s.start(t)
			ns, goes := s.namespace(t, "full-start"), s.namespace(t, "goes")
			acked := acknowledged{}
			for i := range 30 {
				if err := acked.create(t.Context(), s, ns, fmt.Sprintf("a-%d", i)); err != nil {
					t.Fatal(err)
				}
			}
			doomed := s.create(t, secrets, goes, "owner")
			s.createMany(t, 10, configMaps, goes, "dependent", owner(doomed))
			if !c.starts {
				s.kill() // which leaves a log
			} else {
				await(t, "the reserve", func(context.Context) (bool, any) {
					info, err := os.Stat(filepath.Join(s.dir, "db", "reserve"))
					return err == nil && info.Size() == 8<<20, err
				})
				s.stop(t)
				ok(t, "db", "compact", "--data-dir", s.dir, "--config=") // a log that the start takes in would make room
			}
			filler := s.fillDisk(t)
			if !c.starts {
				whole := s.database(t)
				run(t, append([]string{"server", "--config="}, s.args...)...).mustFail(t, "the disk of "+s.dir+" is full", "free space there")
				if s.database(t) != whole {
					t.Error("the start that failed has changed the database")
				}
			} else {
				s.restart(t)
				s.mustSayFull(t, "creating", acked.create(t.Context(), s, ns, "refused"))
				acked.mustBeThere(t, s, ns)
				s.delete(t, secrets, doomed)
				s.awaitCount(t, 0, configMaps, goes)
			}
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			if !c.starts {
				s.restart(t)
			}
			await(t, "a write once there is room", func(ctx context.Context) (bool, any) {
				err := acked.create(ctx, s, ns, "with-room")
				return err == nil, err
			})
			acked.mustBeThere(t, s, ns)
		})
	}
}

// database returns the database and its log.
func (s *server) database(t *testing.T) (content string) {
	t.Helper()
	for _, name := range []string{"state.db", "state.db-wal"} {
		raw, err := os.ReadFile(filepath.Join(s.dir, "db", name))
		if err != nil {
			t.Fatal(err)
		}
		content += string(raw)
	}
	return content
}
