package pki

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

const server = "https://127.0.0.1:6443"

func wantKubeconfig(t *testing.T, path string, mode fs.FileMode, f Files) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != mode {
		t.Errorf("mode %v, want %v", info.Mode(), mode)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != server || config.Insecure {
		t.Errorf("host %s, insecure %v", config.Host, config.Insecure)
	}
	for file, got := range map[string][]byte{f.ServerCA: config.CAData, f.AdminCert: config.CertData, f.AdminKey: config.KeyData} {
		if want, err := os.ReadFile(file); err != nil || string(want) != string(got) {
			t.Errorf("kubeconfig does not hold %s (%v)", file, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestKubeconfig(t *testing.T) {
	// The mode does not depend on the umask.
	defer syscall.Umask(syscall.Umask(0))
	f := mustEnsure(t, t.TempDir(), at(aDay))
	path := filepath.Join(t.TempDir(), "a", "b", "admin.kubeconfig")
	if err := WriteKubeconfig(path, 0o600, server, f); err != nil {
		t.Fatal(err)
	}
	wantKubeconfig(t, path, 0o600, f)
	for _, dir := range []string{filepath.Dir(path), filepath.Dir(filepath.Dir(path))} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", dir, info.Mode(), err)
		}
	}

	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteKubeconfig(path, 0o600, server, f); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the same content was written again (%v)", err)
	}

	syscall.Umask(0o077)
	if err := WriteKubeconfig(path, 0o644, server, f); err != nil {
		t.Fatal(err)
	}
	wantKubeconfig(t, path, 0o644, f)
	write(t, path, "something else")
	if err := WriteKubeconfig(path, 0o640, server, f); err != nil {
		t.Fatal(err)
	}
	wantKubeconfig(t, path, 0o640, f)
}

func TestKubeconfigThroughLink(t *testing.T) {
	f := mustEnsure(t, t.TempDir(), at(aDay))
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "config")
	if err := os.Symlink("target", link); err != nil {
		t.Fatal(err)
	}
	err := WriteKubeconfig(link, 0o600, server, f)
	wantError(t, err, link, "remove the link")

	if err := os.WriteFile(target, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteKubeconfig(link, 0o600, server, f); err != nil {
		t.Fatal(err)
	}
	wantKubeconfig(t, target, 0o600, f)
	if got, err := os.Readlink(link); err != nil || got != "target" {
		t.Errorf("the link is %q, %v", got, err)
	}
}

func TestKubeconfigErrors(t *testing.T) {
	f := mustEnsure(t, t.TempDir(), at(aDay))
	dir := t.TempDir()
	path := filepath.Join(dir, "config")
	for _, bad := range []string{"", "127.0.0.1:6443", "http://127.0.0.1:6443", "https://"} {
		wantError(t, WriteKubeconfig(path, 0o600, bad, f), path, "https://127.0.0.1:6443")
	}
	wantError(t, WriteKubeconfig(path, 0o600, server, Files{}), path, "start reap again")
	wantError(t, WriteKubeconfig(dir, 0o600, server, f), dir, "choose another path")

	// A failed write leaves the old file.
	write(t, path, "old")
	unblock := blockTemp(t, path)
	wantError(t, WriteKubeconfig(path, 0o600, server, f), path, "check that")
	unblock()
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("holds %q", got)
	}
	wantError(t, WriteKubeconfig(filepath.Join(path, "x", "config"), 0o600, server, f), path, "choose another path")
}
