package integration

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/reap-dev/reap/tests/program"
)

// Unix limits the length of a socket's path.
func TestDataDirectoryMayBeLongerThanASocketsPath(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	deep := filepath.Join(top, strings.Repeat("deep/", 50))
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	s := newServer(deep)
	s.start(t)
	s.mustWork(t)
	s.stop(t)
	s.restart(t)
	s.mustWork(t)
}

// The server runs without root and without --data-dir.
func TestServerRunsForAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	const nobody = 65534
	// Not below t.TempDir, which others may not enter.
	home, err := os.MkdirTemp("", "reap-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	data := filepath.Join(home, "data home")
	s := &server{
		top:  home,
		dir:  filepath.Join(data, "reap"),
		args: []string{"--https-listen-port", "0"},
		env:  []string{"HOME=" + home, "XDG_DATA_HOME=" + data},
		log:  program.LogFile(home),
	}
	uid := os.Geteuid()
	if uid == 0 {
		uid = nobody
		s.user = &syscall.Credential{Uid: nobody, Gid: nobody}
		if err := os.Chown(home, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	s.start(t)
	s.mustWork(t)
	err = filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Sys().(*syscall.Stat_t).Uid != uint32(uid) {
			t.Errorf("%s is not the user's", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
