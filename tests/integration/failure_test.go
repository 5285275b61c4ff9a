package integration

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The cases are all errors that a start can detect before it changes anything.
func TestStartThatCannotSucceedChangesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("not a directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(broken, []byte("data-dir: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		flags []string
		says  []string
	}{
		{"data directory below a file", []string{"--data-dir", filepath.Join(file, "data")}, []string{file, "--data-dir"}},
		{"data directory is a file", []string{"--data-dir", file}, []string{file, "--data-dir"}},
		{"config file missing", []string{"--config", filepath.Join(file, "none.yaml")}, []string{file}},
		{"config file is a directory", []string{"--config", t.TempDir()}, []string{"--config"}},
		{"config file broken", []string{"--config", broken}, []string{broken}},
		{"disabling what is not there", []string{"--disable=nonsense"}, []string{"nonsense", "gc", "namespace", "serviceaccount"}},
		{"unknown argument of kube-apiserver", []string{"--kube-apiserver-arg", "no-such-thing=1"}, []string{"--kube-apiserver-arg", "no-such-thing"}},
		{"wrong value for kube-apiserver", []string{"--kube-apiserver-arg", "profiling=perhaps"}, []string{"--kube-apiserver-arg", "profiling"}},
		{"argument of kube-apiserver that reap owns", []string{"--kube-apiserver-arg", "secure-port=1"}, []string{"secure-port", "--https-listen-port"}},
		{"address of another machine", []string{"--bind-address", "192.0.2.1"}, []string{"192.0.2.1", "--bind-address"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			args := append([]string{"server", "--config=", "--data-dir", dir, "--https-listen-port", "0"}, tc.flags...)
			run(t, args...).mustFail(t, tc.says...)
			for _, made := range []string{"db/state.db", "pki", "admin.kubeconfig", "ready.json"} {
				if _, err := os.Stat(filepath.Join(dir, made)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s was made (%v)", made, err)
				}
			}
			if raw, err := os.ReadFile(file); err != nil || string(raw) != "not a directory" {
				t.Errorf("the file is %q now (%v)", raw, err)
			}
		})
	}
}

// TestDataDirectoryThatCannotBeWritten is asked of an ordinary user: root may write everywhere.
func TestDataDirectoryThatCannotBeWritten(t *testing.T) {
	// Not below t.TempDir, which others may not enter.
	dir, err := os.MkdirTemp("", "reap-read-only-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	var user *syscall.Credential
	if os.Geteuid() == 0 {
		const nobody = 65534
		user = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	for _, data := range []string{dir, filepath.Join(dir, "data")} {
		runAs(t, user, "server", "--config=", "--data-dir", data, "--https-listen-port", "0").mustFail(t, data, "permission denied", "--data-dir")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("the directory holds %v (%v)", entries, err)
	}
}

func TestFileThatIsNoDatabaseIsNotOverwritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	database := filepath.Join(dir, "db", "state.db")
	if err := os.MkdirAll(filepath.Dir(database), 0o700); err != nil {
		t.Fatal(err)
	}
	const content = "This is somebody's text, and they may want to have it back.\n"
	if err := os.WriteFile(database, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "server", "--config=", "--data-dir", dir, "--https-listen-port", "0").mustFail(t, database)
	if raw, err := os.ReadFile(database); err != nil || string(raw) != content {
		t.Errorf("the file is %q now (%v)", raw, err)
	}
}
