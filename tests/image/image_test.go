//go:build releasetest && linux

package image

import (
	"crypto/sha256"
	"crypto/x509"
	"debug/elf"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	program      = "/usr/local/bin/reap"
	certificates = "/etc/ssl/certs/ca-certificates.crt"
	data         = "/var/lib/reap"
	// user is nobody on any machine, so that it owns nothing but what the image gives it.
	user = 65532
)

// TestImage builds the image both ways and runs it.
func TestImage(t *testing.T) {
	b := newBuilder(t)
	source := checkout(t)
	g := readGolang(t)
	b.build(t, "reap", source, append(b.standIn(t, g),
		"--build-arg=BUILD_VERSION=v0.0.0-image", "--build-arg=BUILD_COMMIT=0123abcd", "--build-arg=BUILD_DATE=2020-02-02T20:20:20Z")...)
	image := b.config(t, "reap")
	root := b.unpack(t, "reap")
	files := list(t, root)

	t.Run("holds the program alone", func(t *testing.T) { mustHoldTheProgramAlone(t, root, files) })
	t.Run("says how to run it", func(t *testing.T) { mustSayHowToRunIt(t, image) })

	t.Run("from a binary built outside it is the same", func(t *testing.T) {
		for from, to := range map[string]string{program: "bin/reap", certificates: "bin/ca-certificates.crt"} {
			content, err := os.ReadFile(filepath.Join(root, from))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(source, to), content, 0o600) // the image sets modes of its own
		}
		b.build(t, "prebuilt", source, "--target=prebuilt")
		if other := b.config(t, "prebuilt"); fmt.Sprintf("%+v", other) != fmt.Sprintf("%+v", image) {
			t.Errorf("its configuration is\n%+v\nand not\n%+v", other, image)
		}
		if other := list(t, b.unpack(t, "prebuilt")); !maps.Equal(other, files) {
			t.Errorf("it holds\n%v\nand not\n%v", other, files)
		}
	})

	c := container{image: image, root: root}
	t.Run("version", func(t *testing.T) {
		c := c.withVolume(t)
		want := result{0, "reap version v0.0.0-image (commit 0123abcd, built 2020-02-02T20:20:20Z)\n", ""}
		if got := c.run(t, program, "--version"); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
	t.Run("runs", func(t *testing.T) { mustRun(t, c.withVolume(t)) })
	t.Run("runs without a network", func(t *testing.T) { mustRunAlone(t, c.withVolume(t)) })
}

// file is what an image says about a file.
type file struct {
	mode     fs.FileMode
	uid, gid uint32
	content  string // its digest, or the target of a link
}

// list returns everything below root.
func list(t *testing.T, root string) map[string]file {
	t.Helper()
	found := map[string]file{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		f := file{mode: info.Mode(), uid: stat.Uid, gid: stat.Gid}
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			f.content = fmt.Sprintf("%x", sha256.Sum256(content))
		}
		found["/"+strings.TrimPrefix(strings.TrimPrefix(path, root), "/")] = f
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func mustHoldTheProgramAlone(t *testing.T, root string, files map[string]file) {
	want := map[string]string{
		program:           "-rwxr-xr-x 0:0",
		certificates:      "-rw-r--r-- 0:0",
		data + "/LICENSE": fmt.Sprintf("-rw-r--r-- %d:%d", user, user),
	}
	got := map[string]string{}
	for path, f := range files {
		switch owned := f.uid == user && f.gid == user; {
		case !f.mode.IsDir():
			got[path] = fmt.Sprintf("%s %d:%d", f.mode, f.uid, f.gid)
		case path == data && !owned:
			t.Errorf("%s belongs to %d:%d: a new volume would too", path, f.uid, f.gid)
		case path != data && f.mode.Perm()&0o022 != 0:
			t.Errorf("everybody may write to %s: %s", path, f.mode)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("it holds\n%v\nand not\n%v", got, want)
	}

	binary, err := elf.Open(filepath.Join(root, program))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = binary.Close() }() // only read
	if slices.ContainsFunc(binary.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Error("the program is not static: there is nothing to load it with")
	}
	roots, err := os.ReadFile(filepath.Join(root, certificates))
	if err != nil {
		t.Fatal(err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(roots) {
		t.Error("there are no CA certificates")
	}
}

func mustSayHowToRunIt(t *testing.T, image config) {
	want := config{
		User:         fmt.Sprintf("%d:%d", user, user),
		Env:          image.Env, // what matters in it is tested by running it
		Entrypoint:   []string{program},
		Cmd:          []string{"server"},
		WorkingDir:   data,
		Volumes:      map[string]struct{}{data: {}},
		ExposedPorts: map[string]struct{}{"6443/tcp": {}},
		StopSignal:   "SIGTERM",
	}
	want.Healthcheck.Test = []string{"CMD", program, "healthcheck"}
	want.Healthcheck.Interval = 30 * time.Second
	want.Healthcheck.Timeout = 10 * time.Second
	want.Healthcheck.StartPeriod = 4 * time.Minute
	want.Healthcheck.Retries = 3
	if fmt.Sprintf("%+v", image) != fmt.Sprintf("%+v", want) {
		t.Errorf("it says\n%+v\nand not\n%+v", image, want)
	}
}
