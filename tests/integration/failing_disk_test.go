package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// failingDisk lets the database's syncs and writes fail on demand, and returns the switch.
func (s *server) failingDisk(t *testing.T) (base string) {
	t.Helper()
	library := filepath.Join(t.TempDir(), "failing_disk.so")
	cmd := exec.Command("gcc", "-shared", "-fPIC", "-o", library, filepath.Join("testdata", "failing_disk.c"), "-ldl")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compiling the failing disk: %v\n%s", err, out)
	}
	base = filepath.Join(t.TempDir(), "switch")
	s.env = append(s.env, "LD_PRELOAD="+library, "REAP_TEST_DISK="+base)
	return base
}

// TestNothingIsAcknowledgedAfterAFailedSync: after a failed sync the server acknowledges nothing more, and the process ends with the
// reason. What was acknowledged before is there after the next start.
func TestNothingIsAcknowledgedAfterAFailedSync(t *testing.T) {
	t.Parallel()
	aboutSQLite(t)
	s := newServer(t.TempDir(), "--sqlite-synchronous=full")
	base := s.failingDisk(t)
	s.start(t)
	ns := s.namespace(t, "sync")
	acked := acknowledged{}
	for i := range 20 {
		if err := acked.create(t.Context(), s, ns, fmt.Sprintf("a-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(base+".sync", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := acked.create(t.Context(), s, ns, fmt.Sprintf("b-%d", i)); err == nil {
			t.Error("a write was acknowledged that could not be synced")
		}
		if i == 0 { // and with a disk that works again, too
			if err := os.Remove(base + ".sync"); err != nil {
				t.Fatal(err)
			}
		}
	}
	select {
	case <-s.done:
	case <-time.After(patience):
		t.Fatal("the server goes on after a failed sync")
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("it ended with %s", s.cmd.ProcessState)
	}
	if !bytes.Contains(s.logTail(0), []byte("a sync of ")) {
		t.Error("the log does not say why it ended")
	}
	s.restart(t)
	list, err := s.uids(t.Context(), configMaps, ns)
	if err != nil {
		t.Fatal(err)
	}
	for name, uid := range acked {
		if list[name] != uid {
			t.Errorf("%s was acknowledged and is not there", name)
		}
	}
}

// TestReadsGoOnWhileTheDiskTakesNoWrites: writes are answered with 503 or 507 and the reason, reads go on, and the same process takes
// writes once the disk does.
func TestReadsGoOnWhileTheDiskTakesNoWrites(t *testing.T) {
	t.Parallel()
	aboutSQLite(t)
	s := newServer(t.TempDir())
	base := s.failingDisk(t)
	s.start(t)
	for number, says := range map[syscall.Errno]string{
		syscall.EROFS:  "is read-only",
		syscall.EIO:    "could not be used",
		syscall.EDQUOT: "is full, or its quota is used up",
	} {
		t.Run(number.Error(), func(t *testing.T) {
			ns := s.namespace(t, "no-writes")
			acked := acknowledged{}
			if err := acked.create(t.Context(), s, ns, "before"); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(base+".write", []byte(strconv.Itoa(int(number))), 0o600); err != nil {
				t.Fatal(err)
			}
			code := http.StatusServiceUnavailable
			if number == syscall.EDQUOT {
				code = http.StatusInsufficientStorage
			}
			for i := range 5 {
				err := acked.create(t.Context(), s, ns, fmt.Sprintf("during-%d", i))
				var status *apierrors.StatusError
				if !errors.As(err, &status) || int(status.ErrStatus.Code) != code || !strings.Contains(status.ErrStatus.Message, says) {
					t.Errorf("a create while the disk takes no writes: %v, want code %d and %q", err, code, says)
				}
			}
			if _, err := s.kube.CoreV1().ConfigMaps(ns).Get(t.Context(), "before", metav1.GetOptions{}); err != nil {
				t.Errorf("a read while the disk takes no writes: %v", err)
			}
			if err := os.Remove(base + ".write"); err != nil {
				t.Fatal(err)
			}
			await(t, "a write once the disk takes it", func(ctx context.Context) (bool, any) {
				err := acked.create(ctx, s, ns, "after")
				return err == nil, err
			})
			acked.mustBeThere(t, s, ns)
		})
	}
}
