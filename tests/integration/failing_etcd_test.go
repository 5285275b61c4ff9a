package integration

import (
	"bytes"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/reap-dev/reap/tests/powercut"
	"github.com/reap-dev/reap/tests/size"
)

// TestEtcdEndsTheServerWhenItsDiskFails: after a sync or a write of the embedded etcd has failed, nothing more is acknowledged,
// and the process ends with exit code 1 and the reason. The next start on a disk that works has all that was
// acknowledged before.
func TestEtcdEndsTheServerWhenItsDiskFails(t *testing.T) {
	t.Parallel()
	ways := []struct {
		name string
		fail func(*powercut.Disk)
	}{
		{"SyncFails", func(d *powercut.Disk) { d.FailSyncs(syscall.EIO) }},
		{"ReadOnly", func(d *powercut.Disk) { d.FailWrites(syscall.EROFS) }},
		{"WriteFails", func(d *powercut.Disk) { d.FailWrites(syscall.EIO) }},
	}
	for _, way := range ways[:size.Of(1, 2, 3)] {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t.TempDir(), onEtcd)
			disk := s.recordingDisk(t, filepath.Join(s.top, "journal"))
			s.start(t)
			ns := s.namespace(t, "failing")
			acked := acknowledged{}
			for i := range 20 {
				if err := acked.create(t.Context(), s, ns, fmt.Sprintf("before-%d", i)); err != nil {
					t.Fatal(err)
				}
			}
			way.fail(disk)
			for i := range 5 {
				if err := acked.create(t.Context(), s, ns, fmt.Sprintf("after-%d", i)); err == nil {
					t.Error("a write was acknowledged that is not on the disk")
				}
			}
			select {
			case <-s.done:
			case <-time.After(patience):
				t.Fatal("the server goes on")
			}
			if code := s.cmd.ProcessState.ExitCode(); code != 1 {
				t.Errorf("it ended with %s", s.cmd.ProcessState)
			}
			if log := s.logTail(0); !bytes.Contains(log, []byte("etcd cannot go on")) || !bytes.Contains(log, []byte(filepath.Join(s.dir, "etcd"))) {
				t.Error("the log does not say why it ended, and which directory it was")
			}
			disk.FailSyncs(0)
			disk.FailWrites(0)
			s.restart(t)
			there, err := s.uids(t.Context(), configMaps, ns)
			if err != nil {
				t.Fatal(err)
			}
			for name, uid := range acked {
				if there[name] != uid {
					t.Errorf("%s was acknowledged and is not there", name)
				}
			}
			s.mustWork(t)
		})
	}
}
