package service

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// ownData are patterns of what a server keeps in its data directory, and what its commands leave there when they are killed.
var ownData = []string{
	"admin.kubeconfig", ".admin.kubeconfig.*", "converting.json", "converting.json.next", ".converting", "db", "etcd", "etcd.sock*", "format.json",
	"format.json.next", "kine.sock*", "last-time", "last-time.next", "lock", "pki", "ready.json", "ready.json.next", "restored.json",
	"restored.json.next", "restoring", ".restoring-*",
}

// keptData are patterns of what is there for its user: outside the service's own directory it is his to remove.
var keptData = []string{"*.before-convert-*", "*.before-restore-*", "snapshots"}

// Belongs reports what the name of an entry of a data directory says: whether a server or a command of reap's has made it, and whether
// it is kept for the user, as an older store is.
func Belongs(name string) (made, kept bool) {
	is := func(pattern string) bool {
		is, _ := filepath.Match(pattern, name) // the patterns are good
		return is
	}
	kept = slices.ContainsFunc(keptData, is)
	return kept || slices.ContainsFunc(ownData, is), kept
}

// checkPurge fails if the data directory holds anything that must not be removed with it.
func (u *Uninstallation) checkPurge() error {
	// Any other directory than the service's own may hold more than reap's data: /srv, or a home.
	if u.dir != u.at("/var/lib/"+u.service) {
		entries, err := os.ReadDir(u.dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			switch made, kept := Belongs(e.Name()); {
			case !made:
				return fmt.Errorf("%s holds %s, which is not reap's: remove the data by hand; nothing was removed", u.dataDir, e.Name())
			case kept:
				return fmt.Errorf("%s holds %s, which reap keeps for you: move it away or remove it first; nothing was removed", u.dataDir, e.Name())
			}
		}
	}
	mounts, err := mountPoints()
	if err != nil {
		return fmt.Errorf("cannot tell what is mounted: %w; nothing was removed", err)
	}
	for _, mount := range mounts {
		if strings.HasPrefix(mount, u.dir+"/") {
			return fmt.Errorf("%s is mounted inside the data directory: unmount it first; nothing was removed", mount)
		}
	}
	// A service is stopped before its data goes; a server that somebody started is his to stop.
	if pid, err := u.server(u.dataDir); u.init == None && err != nil {
		return fmt.Errorf("%w; nothing was removed", err)
	} else if u.init == None && pid > 0 {
		return fmt.Errorf("a server, process %d, runs on %s: stop it first; nothing was removed", pid, u.dataDir)
	}
	return nil
}

// mountPoints returns the paths on which something is mounted. A bind mount has its parent's device number, so only
// this list tells.
func mountPoints() (paths []string, err error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 {
			paths = append(paths, unescape.Replace(fields[4]))
		}
	}
	return paths, lines.Err()
}

// purge removes the data. It follows no link and enters no other file system. The directory itself may be a mount
// point, and stays then.
func (u *Uninstallation) purge() error {
	device, err := deviceOf(u.dir)
	if err != nil {
		return err
	}
	var dirs []string
	err = filepath.WalkDir(u.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() {
			return os.Remove(path)
		}
		if on, err := deviceOf(path); err != nil {
			return err
		} else if on != device {
			return fs.SkipDir
		}
		dirs = append(dirs, path)
		return nil
	})
	if err != nil {
		return fmt.Errorf("removing the data: %w", err)
	}
	slices.Reverse(dirs)
	for _, dir := range dirs {
		if err := os.Remove(dir); err != nil && dir != u.dir {
			return fmt.Errorf("removing the data: %w", err)
		}
	}
	if info, err := os.Lstat(u.at(u.dataDir)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return u.remove(u.dataDir)
	}
	return nil
}

func deviceOf(path string) (uint64, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	return uint64(info.Sys().(*syscall.Stat_t).Dev), nil // 32 bits on some machines
}

// removeEmpty removes a directory if nothing is in it.
func removeEmpty(dir string) {
	_ = os.Remove(dir) // fails if something is, or if it is not there
}

func isReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }
