package service

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func put(t *testing.T, s Settings, path, content string, mode fs.FileMode) {
	t.Helper()
	path = s.Root + path
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, s Settings, path string) string {
	t.Helper()
	raw, err := os.ReadFile(s.Root + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// tree returns what is below the root, with contents and modes.
func tree(t *testing.T, s Settings) (all []string) {
	t.Helper()
	err := filepath.WalkDir(s.Root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := info.Mode().String() + " " + strings.TrimPrefix(path, s.Root)
		if info.Mode().IsRegular() {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += " " + string(raw)
		}
		all = append(all, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// install plans and applies.
func install(t *testing.T, s Settings, in Install) error {
	t.Helper()
	i, err := Plan(t.Context(), s, in)
	if err != nil {
		return err
	}
	return i.Apply(t.Context())
}

func mustInstall(t *testing.T, s Settings, in Install) {
	t.Helper()
	if err := install(t, s, in); err != nil {
		t.Fatal(err)
	}
}

func TestBadSettingsChangeNothing(t *testing.T) {
	s, _ := machine(t, Systemd)
	mustInstall(t, s, Install{Arguments: []string{"--disable=gc"}})
	if err := os.Mkdir(s.Root+"/usr/local/bin/reap-taken-uninstall.sh", 0o755); err != nil {
		t.Fatal(err)
	}
	before := tree(t, s)
	for _, tc := range []struct {
		name     string
		settings func(*Settings)
		in       Install
		want     string
	}{
		{name: "another command", in: Install{Arguments: []string{"gc"}}, want: `"gc" does not`},
		{name: "empty argument first", in: Install{Arguments: []string{""}}, want: "start with -"},
		{name: "line break", in: Install{Arguments: []string{"--x=a\nb"}}, want: "line break"},
		{name: "carriage return", in: Install{Arguments: []string{"--x", "a\rExecStartPre=b"}}, want: "argument 2 holds a line break"},
		{name: "not UTF-8", in: Install{Arguments: []string{"--x=\xff"}}, want: "argument 1 is not UTF-8"},
		{name: "control character in the environment", in: Install{Environment: []string{"REAP_X=\x1b"}}, want: "REAP_X holds a control character"},
		{name: "too many arguments", in: Install{Arguments: []string{"--x=" + strings.Repeat("'", mostArguments)}}, want: "may have 65536"},
		{name: "line break in the environment", in: Install{Environment: []string{"REAP_X=a\nb"}}, want: "REAP_X holds a line break"},
		{name: "relative data", in: Install{Arguments: []string{"--data-dir=data"}}, want: "must start with /"},
		{name: "relative configuration", in: Install{Arguments: []string{"--config", "x.yaml"}}, want: `--config "x.yaml" must start with /`},
		{name: "relative data in the environment", in: Install{Environment: []string{"REAP_DATA_DIR=data"}}, want: "must start with /"},
		{name: "name", settings: func(s *Settings) { s.Name = "../x" }, want: "--name"},
		{name: "long name", settings: func(s *Settings) { s.Name = strings.Repeat("x", longestName+1) }, want: "--name has 101 characters"},
		{name: "out of the root", settings: func(s *Settings) { s.BinDir = "/../bin" }, want: "--bin-dir"},
		{name: "units out of the root", settings: func(s *Settings) { s.SystemdDir = "/units/.." }, want: "--systemd-dir"},
		{name: "long directory", settings: func(s *Settings) { s.SystemdDir = "/" + strings.Repeat("x", 300) }, want: "too long"},
		{name: "a file above a file", settings: func(s *Settings) { s.SystemdDir = "/usr/local/bin/reap" }, want: "not a directory"},
		{name: "a directory for a file", settings: func(s *Settings) { s.Name = "taken" }, want: "there is a directory of that name"},
		{name: "relative directory", settings: func(s *Settings) { s.BinDir = "bin" }, want: "--bin-dir"},
		{name: "space", settings: func(s *Settings) { s.SystemdDir = "/a b" }, want: "--systemd-dir"},
		{name: "no program", settings: func(s *Settings) { s.BinDir = "/opt/bin" }, want: "there is no program /opt/bin/reap"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := s
			if tc.settings != nil {
				tc.settings(&s)
			}
			if err := install(t, s, tc.in); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
			if after := tree(t, s); !slices.Equal(before, after) {
				t.Errorf("files changed:\n%q\n%q", before, after)
			}
		})
	}
	put(t, s, "/etc/reap/config.yaml", "data-dir: [", 0o644)
	if err := install(t, s, Install{}); err == nil || !strings.Contains(err.Error(), "config.yaml") {
		t.Errorf("got %v, want an error about config.yaml", err)
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	s, out := machine(t, Systemd)
	before := tree(t, s)
	i, err := Plan(t.Context(), s, Install{})
	if err != nil {
		t.Fatal(err)
	}
	if err := i.DryRun(); err != nil {
		t.Fatal(err)
	}
	if after := tree(t, s); !slices.Equal(before, after) {
		t.Errorf("files changed:\n%q\n%q", before, after)
	}
	if !strings.Contains(out.String(), "would write /etc/systemd/system/reap.service") {
		t.Errorf("it says %q", out)
	}
}

func TestArgumentsAreKept(t *testing.T) {
	s, out := machine(t, OpenRC)
	first := []string{"--disable=gc", "it's odd", ""}
	mustInstall(t, s, Install{Arguments: first})
	before := tree(t, s)
	mustInstall(t, s, Install{})
	if after := tree(t, s); !slices.Equal(before, after) {
		t.Errorf("files changed:\n%q\n%q", before, after)
	}
	if !strings.Contains(out.String(), "keeping the arguments") || strings.Contains(out.String(), "it's odd") {
		t.Errorf("it says %q", out)
	}
	mustInstall(t, s, Install{Arguments: []string{"server"}})
	if got := recorded(get(t, s, "/etc/init.d/reap"), "# arguments: "); got != "" {
		t.Errorf("it keeps %s", got)
	}
	mustInstall(t, s, Install{Arguments: []string{"server", "--log-level=debug"}})
	if got := recorded(get(t, s, "/etc/init.d/reap"), "# arguments: "); got != "'--log-level=debug'" {
		t.Errorf("it has the arguments %s", got)
	}
}

// TestServerIsCheckedFirst: arguments and variables that a server does not take are found before anything is changed.
func TestServerIsCheckedFirst(t *testing.T) {
	s, _ := machine(t, OpenRC)
	put(t, s, "/etc/reap/reap.env", "REAP_LOG_LEVEL='debug'\nREAP_LOG_FORMAT=\"\"\n", 0o600)
	mustInstall(t, s, Install{Arguments: []string{"--disable=gc"}})
	before := tree(t, s)
	var seen []string
	in := Install{Environment: []string{"REAP_DISABLE=job", "HOME=/root"}, Check: func(server Server) error {
		seen = append(append(seen, server.Arguments...), server.Environment...)
		if server.Root != s.Root || server.Running != "" || server.Starts {
			t.Errorf("checked was %+v", server)
		}
		return errors.New("no such\tserver")
	}}
	if err := install(t, s, in); err == nil || !strings.Contains(err.Error(), "/etc/reap/reap.env: no such server") {
		t.Errorf("got %v", err)
	}
	if want := []string{"--disable=gc", "REAP_LOG_LEVEL=debug", "REAP_LOG_FORMAT=", "REAP_DISABLE=job"}; !slices.Equal(seen, want) {
		t.Errorf("checked were %q, want %q", seen, want)
	}
	if after := tree(t, s); !slices.Equal(before, after) {
		t.Errorf("files changed:\n%q\n%q", before, after)
	}
}

// TestUnitStaysWhereItIs: whoever runs the installer again need not know where the unit is.
func TestUnitStaysWhereItIs(t *testing.T) {
	s, _ := machine(t, Systemd)
	const first, second = "/usr/lib/systemd/system/reap.service", "/etc/systemd/system/reap.service"
	s.SystemdDir = filepath.Dir(first)
	mustInstall(t, s, Install{Arguments: []string{"--disable=gc"}})
	before := tree(t, s)
	s.SystemdDir = ""
	mustInstall(t, s, Install{})
	if after := tree(t, s); !slices.Equal(before, after) {
		t.Errorf("files changed:\n%q\n%q", before, after)
	}

	put(t, s, "/run/systemd/system/x", "", 0o644)
	commands := t.TempDir()
	fake(t, commands, "systemctl", `case $1 in is-*|show) ;; *) echo "$@" >>$t/calls ;; esac`)
	t.Setenv("PATH", commands)
	s.SystemdDir = filepath.Dir(second)
	mustInstall(t, s, Install{})
	if got := recorded(get(t, s, second), "# arguments: "); got != "'--disable=gc'" {
		t.Errorf("it has the arguments %s", got)
	}
	if exists(s.Root + first) {
		t.Error("there are two units")
	}
	calls, err := os.ReadFile(filepath.Join(commands, "calls"))
	if want := "daemon-reload\nreenable reap.service\nrestart reap.service\n"; err != nil || string(calls) != want {
		t.Errorf("systemctl was called with %q (%v), want %q", calls, err, want)
	}
	if u, err := PlanUninstall(s); err != nil || u.unit != second {
		t.Errorf("the record says %+v (%v)", u, err)
	}

	// The record is beside the binary, which may have moved with its unit.
	put(t, s, "/opt/bin/reap", "#!/bin/sh\n", 0o755)
	s.BinDir, s.SystemdDir = "/opt/bin", filepath.Dir(first)
	mustInstall(t, s, Install{})
	if got := recorded(get(t, s, first), "# arguments: "); got != "'--disable=gc'" || exists(s.Root+second) {
		t.Errorf("it has the arguments %s", got)
	}
	s.SystemdDir = filepath.Dir(second)
	mustInstall(t, s, Install{})

	// Two names of one directory.
	if err := os.MkdirAll(s.Root+"/lib", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(s.Root+"/etc/systemd", s.Root+"/lib/systemd"); err != nil {
		t.Fatal(err)
	}
	s.SystemdDir = "/lib/systemd/system"
	mustInstall(t, s, Install{})
	if !exists(s.Root + second) {
		t.Error("the unit is gone")
	}
}

// TestOrdinaryUserMayNotSee: the data directory is root's alone, which says nothing about the server.
func TestOrdinaryUserMayNotSee(t *testing.T) {
	for _, kind := range []string{OpenRC, None} {
		t.Run(kind, func(t *testing.T) {
			s, _ := machine(t, kind)
			mustInstall(t, s, Install{})
			put(t, s, "/var/lib/reap/ready.json", `{"pid": 1}`, 0o600)
			commands := t.TempDir()
			fake(t, commands, "rc-service", "")
			t.Setenv("PATH", commands)
			if kind == OpenRC {
				put(t, s, "/run/openrc/softlevel", "", 0o644)
			}
			if status, err := ReadStatus(t.Context(), s); err != nil || !status.Ready || status.Verdict() != nil {
				t.Fatalf("root sees %+v (%v)", status, err)
			}
			// The data is root's alone, and the test's directory is open.
			if err := errors.Join(os.Chmod(s.Root+"/var/lib/reap", 0o700), os.Chmod(filepath.Dir(s.Root), 0o755)); err != nil {
				t.Fatal(err)
			}
			var status Status
			var err error
			asOrdinaryUser(t, func() { status, err = ReadStatus(t.Context(), s) })
			if err != nil || status.Ready || !status.ReadyUnknown {
				t.Fatalf("an ordinary user sees %+v (%v)", status, err)
			}
			if err := status.Verdict(); err == nil || !strings.Contains(err.Error(), "sudo") {
				t.Errorf("the verdict is %v", err)
			}
			var out strings.Builder
			if err := status.Print(&out); err != nil || !strings.Contains(out.String(), "ready            unknown\n") {
				t.Errorf("it prints %s (%v)", out.String(), err)
			}
		})
	}
}

// asOrdinaryUser calls f on a thread that opens files as an ordinary user does.
func asOrdinaryUser(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: without it the files are the user's own")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and it ends with the goroutine, since it is not unlocked
		if err := syscall.Setfsuid(65534); err != nil {
			done <- err
			return
		}
		f()
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestEnvironmentIsKept(t *testing.T) {
	s, _ := machine(t, Systemd)
	put(t, s, "/etc/reap/reap.env", "# mine\nREAP_A=\"1\"\nREAP_B=2\nREAP_B=3\nOTHER=x", 0o644)
	mustInstall(t, s, Install{Environment: []string{"REAP_B=4", "REAP_A=1", "PATH=/bin", "REAP_BAD-NAME=x", "XREAP_=y"}})
	if got, want := get(t, s, "/etc/reap/reap.env"), "# mine\nREAP_A=\"1\"\nOTHER=x\nREAP_B=\"4\"\n"; got != want {
		t.Errorf("the environment file is %q, want %q", got, want)
	}
	info, err := os.Stat(s.Root + "/etc/reap/reap.env")
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("its mode is %v (%v)", info.Mode(), err)
	}
}

func TestDataDir(t *testing.T) {
	for _, tc := range []struct {
		name        string
		service     string
		user        int
		in          Install
		environment string
		files       map[string]string
		want        string
	}{
		{name: "default", want: "/var/lib/reap"},
		{name: "argument", in: Install{Arguments: []string{"--data-dir=/a", "--data-dir", "/b"}}, environment: "REAP_DATA_DIR=\"/c\"\n", want: "/b"},
		{name: "environment", environment: "REAP_DATA_DIR=\"/srv/\\$third\"\n", want: "/srv/$third"},
		{name: "given now", in: Install{Environment: []string{"REAP_DATA_DIR=/d"}}, environment: "REAP_DATA_DIR=\"/c\"\n", want: "/d"},
		{name: "file", files: map[string]string{"/etc/reap/config.yaml": "data-dir: /e\n"}, want: "/e"},
		{name: "later file", files: map[string]string{
			"/etc/reap/config.yaml": "data-dir: /e\n", "/etc/reap/config.yaml.d/50.yaml": "data-dir: \"/f g\" # x\n",
			"/etc/reap/config.yaml.d/60.yaml": "log-level: info\n",
		}, want: "/f g"},
		{name: "another file", environment: "REAP_CONFIG=\"/srv/x.yaml\"\n", files: map[string]string{"/srv/x.yaml": "data-dir: /h\n"}, want: "/h"},
		{name: "file of an argument", in: Install{Arguments: []string{"--config", "/srv/y.yaml"}}, environment: "REAP_CONFIG=\"/srv/x.yaml\"\n",
			files: map[string]string{"/srv/x.yaml": "data-dir: /h\n", "/srv/y.yaml": "data-dir: /i\n"}, want: "/i"},
		{name: "no file", in: Install{Arguments: []string{"--config="}}, files: map[string]string{"/etc/reap/config.yaml": "data-dir: /e\n"}, want: "/var/lib/reap"},
		{name: "single quotes", environment: "REAP_DATA_DIR='/srv/a b'\n", want: "/srv/a b"},
		{name: "quotes within", environment: "REAP_DATA_DIR=/srv/'a b'\"c\"\n", want: "/srv/a bc"},
		{name: "second service", service: "x", files: map[string]string{"/etc/reap/config.yaml": "data-dir: /e\n"}, want: "/var/lib/reap-x"},
		{name: "second service with a file of its own", service: "x", in: Install{Arguments: []string{"--config=/etc/reap/x.yaml"}},
			files: map[string]string{"/etc/reap/x.yaml": "data-dir: /j\n"}, want: "/j"},
		{name: "second service with a file that names none", service: "x", in: Install{Environment: []string{"REAP_CONFIG=/etc/reap/x.yaml"}},
			files: map[string]string{"/etc/reap/x.yaml": "log-level: info\n"}, want: "/var/lib/reap-x"},
		{name: "ordinary user", user: 1000, in: Install{DefaultDataDir: "/home/u/.local/share/reap"}, want: "/home/u/.local/share/reap"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _ := machine(t, Systemd)
			s.Name, s.User = tc.service, tc.user
			if tc.environment != "" {
				put(t, s, "/etc/reap/reap.env", tc.environment, 0o600)
			}
			for path, content := range tc.files {
				put(t, s, path, content, 0o644)
			}
			i, err := Plan(t.Context(), s, tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if i.dataDir != tc.want {
				t.Errorf("data directory is %q, want %q", i.dataDir, tc.want)
			}
			// The server prefers an argument to a file.
			if dir, given := flagIn(i.arguments, "--data-dir"); given && dir != tc.want {
				t.Errorf("the arguments are %q", i.arguments)
			}
		})
	}
}

// A file that cannot be written leaves the old one, and nothing beside it.
func TestWriteIsAllOrNothing(t *testing.T) {
	s, _ := machine(t, Systemd)
	p, err := locate(s)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "/etc/target/in-the-way", "", 0o644) // no file can take the place of a directory that holds something
	before := tree(t, s)
	if err := p.write(file{path: "/etc/target", content: "x", mode: 0o644}); err == nil {
		t.Error("it was written")
	}
	if after := tree(t, s); !slices.Equal(before, after) {
		t.Errorf("files changed:\n%q\n%q", before, after)
	}
}

// fake makes a command of an init system that runs a script; $t is a directory for its state.
func fake(t *testing.T, dir, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nt="+dir+"\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRCWaitsForAnAnswer(t *testing.T) {
	s, out := machine(t, OpenRC)
	put(t, s, "/run/openrc/softlevel", "", 0o644)
	commands := t.TempDir()
	fake(t, commands, "rc-update", "")
	fake(t, commands, "rc-service", `case $2 in start) : >$t/active ;; status) [ -e $t/active ] ;; esac`)
	t.Setenv("PATH", commands)
	put(t, s, "/var/lib/reap/ready.json", `{"pid": 999999999}`, 0o644) // of one that was killed
	err := install(t, s, Install{Hash: hash, Wait: time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "did not become ready") {
		t.Fatalf("got %v", err)
	}
	if _, err := os.Stat(s.Root + "/run/reap-install.pending"); err != nil {
		t.Errorf("nothing says that a restart is due: %v", err)
	}
	put(t, s, "/var/lib/reap/ready.json", `{"pid": 1}`, 0o644)
	mustInstall(t, s, Install{Hash: hash, Wait: time.Hour})
	if !strings.Contains(out.String(), "restart of reap") || !strings.Contains(out.String(), "reap is ready") {
		t.Errorf("it says %q", out)
	}
	if _, err := os.Stat(s.Root + "/run/reap-install.pending"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something says that a restart is due: %v", err)
	}
	out.Reset()
	mustInstall(t, s, Install{Hash: hash, Wait: time.Hour})
	if !strings.Contains(out.String(), "nothing changed") {
		t.Errorf("it says %q", out)
	}
}

func TestPurgeTakesOnlyReapsData(t *testing.T) {
	s, _ := machine(t, None)
	mustInstall(t, s, Install{Arguments: []string{"--data-dir=/srv"}})
	put(t, s, "/srv/db/state.db", "", 0o600)
	for _, name := range []string{"last-time", "format.json", "kine.sock", "converting.json.next", ".restoring-12"} {
		put(t, s, "/srv/"+name, "", 0o600)
	}
	put(t, s, "/elsewhere/keep", "", 0o600)
	if err := os.Symlink(s.Root+"/elsewhere", s.Root+"/srv/db/link"); err != nil {
		t.Fatal(err)
	}
	u, err := PlanUninstall(s)
	if err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{
		"precious": "not reap's", "my.sock": "not reap's", "db2": "not reap's", "lock.next": "not reap's",
		"db.before-convert-20261124T000000Z": "keeps for you", "pki.before-restore-20261124T000000Z-2": "keeps for you", "snapshots": "keeps for you",
	} {
		put(t, s, "/srv/"+name, "", 0o600)
		before := tree(t, s)
		if err := u.Apply(t.Context(), true); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), says) {
			t.Errorf("with %s: %v, want %q", name, err, says)
		}
		if after := tree(t, s); !slices.Equal(before, after) {
			t.Fatalf("files changed:\n%q\n%q", before, after)
		}
		if err := os.Remove(s.Root + "/srv/" + name); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, "/srv/ready.json", `{"pid": 1}`, 0o600)
	if err := u.Apply(t.Context(), true); err == nil || !strings.Contains(err.Error(), "process 1") {
		t.Fatalf("got %v", err)
	}
	if err := os.Remove(s.Root + "/srv/ready.json"); err != nil {
		t.Fatal(err)
	}
	if err := u.Apply(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if exists(s.Root+"/srv") || exists(s.Root+"/usr/local/bin/reap") || !exists(s.Root+"/elsewhere/keep") {
		t.Errorf("left: %q", tree(t, s))
	}
	var missing errNotInstalled
	if _, err := PlanUninstall(s); !errors.As(err, &missing) {
		t.Errorf("got %v", err)
	}
}

// An interrupted removal has not stopped the service for sure, so nothing is removed.
func TestInterruptedUninstallRemovesNothing(t *testing.T) {
	for _, kind := range []string{Systemd, OpenRC} {
		t.Run(kind, func(t *testing.T) {
			s, _ := machine(t, kind)
			mustInstall(t, s, Install{})
			commands := t.TempDir()
			for _, name := range []string{"systemctl", "rc-service", "rc-update"} {
				fake(t, commands, name, "exit 1")
			}
			t.Setenv("PATH", commands)
			put(t, s, "/run/systemd/system/x", "", 0o644)
			u, err := PlanUninstall(s)
			if err != nil {
				t.Fatal(err)
			}
			before := tree(t, s)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := u.Apply(ctx, false); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if after := tree(t, s); !slices.Equal(before, after) {
				t.Errorf("files changed:\n%q\n%q", before, after)
			}
		})
	}
}

func TestDirectoryOfTheBinaryIsReadFromTheDefinition(t *testing.T) {
	for _, tc := range []struct{ kind, definition, want string }{
		{Systemd, "ExecStart=/usr/local/bin/reap server --disable=gc\n", "/usr/local/bin"},
		{Systemd, "ExecStart=/opt/reap/bin/reap server\n", "/opt/reap/bin"},
		{Systemd, "ExecStart=/reap server\n", "/"},
		{Systemd, "ExecStart=bin/reap server\n", ""},
		{Systemd, "ExecStart=/usr/bin/env /usr/bin/reap server\n", ""},
		{Systemd, "", ""},
		{OpenRC, "command=/usr/local/bin/reap\n", "/usr/local/bin"},
		{OpenRC, "command=/reap\n", "/"},
		{OpenRC, "command=reap\n", ""},
		{None, "ExecStart=/reap server\n", ""},
	} {
		if got := definedBinDir(tc.kind, tc.definition); got != tc.want {
			t.Errorf("definedBinDir(%s, %q) = %q, want %q", tc.kind, tc.definition, got, tc.want)
		}
	}
}
