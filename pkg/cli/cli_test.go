package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore/outage"
)

// asProgram makes the test binary run as reap, with a server that fails with what $fakeFailure says, so
// that exit codes, the streams and urfave's look at os.Args are the real ones.
const (
	asProgram   = "REAP_TEST_AS_PROGRAM"
	fakeFailure = "REAP_TEST_FAILURE"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run(UntilSignal(), os.Args, os.Stdout, os.Stderr, func(context.Context, config.Server, *outage.Outage) error {
			if text := os.Getenv(fakeFailure); text != "" {
				return errors.New(text)
			}
			return nil
		}))
	}
	os.Exit(m.Run())
}

type result struct {
	code           int
	stdout, stderr string
}

// reap runs the program with an environment of its own.
func reap(t *testing.T, env []string, args ...string) result {
	t.Helper()
	return called(t, "reap", env, args...)
}

// called runs it under another name.
func called(t *testing.T, name string, env []string, args ...string) result {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	empty := filepath.Join(home, "config.yaml") // in place of this machine's own
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Args[0] = name
	// The race detector would have each of them sleep for a second at its end.
	cmd.Env = append([]string{asProgram + "=1", "GORACE=atexit_sleep_ms=0 " + os.Getenv("GORACE"), "HOME=" + home, "REAP_CONFIG=" + empty}, env...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func TestErrorsAreOneLineAndACode(t *testing.T) {
	for _, tc := range []struct {
		args []string
		env  []string
		code int
		want string
	}{
		{[]string{"server"}, nil, exitOK, ""},
		{[]string{"server"}, []string{fakeFailure + "=port taken\n\nby another"}, exitRun, "reap: port taken; by another\n"},
		{
			[]string{"server", "--data-dirr=x"}, nil, exitUsage,
			"reap: unknown flag --data-dirr (did you mean --data-dir?); see 'reap server --help'\n",
		},
		{[]string{"status", "-o"}, nil, exitUsage, "reap: -o needs a value; see 'reap status --help'\n"},
		{[]string{"tree", "deployments/web", "--namespace"}, nil, exitUsage, "reap: --namespace needs a value; see 'reap tree --help'\n"},
		{[]string{"why", "deployments/web", "-n"}, nil, exitUsage, "reap: -n needs a value; see 'reap why --help'\n"},
		{[]string{"snapshot", "remove"}, nil, exitUsage, "reap: unknown command \"remove\"; see 'reap snapshot --help'\n"},
		{[]string{"lint", "--all"}, nil, exitUsage, "reap: unknown flag --all; see 'reap lint --help'\n"},
		{[]string{"server", "--data-dir"}, nil, exitUsage, "reap: --data-dir needs a value; see 'reap server --help'\n"},
		{
			[]string{"server", "gc"}, nil, exitUsage,
			"reap: reap server takes no arguments, only flags, and got \"gc\"; see 'reap server --help'\n",
		},
		{
			[]string{"server", "postgres://u:hunter2@db"}, nil, exitUsage,
			"reap: reap server takes no arguments, only flags, and got a URL; see 'reap server --help'\n",
		},
		{
			[]string{"server", "--bind-address=x"}, nil, exitUsage,
			"reap: --bind-address: \"x\" is not an IP address: give one such as 127.0.0.1, 0.0.0.0 or ::1\n",
		},
		{
			[]string{"server"}, []string{"REAP_LOG_FORMAT=xml"}, exitUsage,
			"reap: --log-format (from $REAP_LOG_FORMAT): \"xml\" is not accepted: give one of text, logfmt, json\n",
		},
		{[]string{"sevrer"}, nil, exitUsage, "reap: unknown command \"sevrer\" (did you mean \"server\"?); see 'reap --help'\n"},
		{[]string{"--verbose"}, nil, exitUsage, "reap: unknown flag --verbose; see 'reap --help'\n"},
		{
			[]string{"completion", "tcsh"}, nil, exitUsage,
			"reap: no completion for \"tcsh\": give one of bash, zsh, fish; see 'reap completion --help'\n",
		},
		{
			[]string{"completion"}, nil, exitUsage,
			"reap: reap completion takes one shell's name: give one of bash, zsh, fish; see 'reap completion --help'\n",
		},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			if got, want := reap(t, tc.env, tc.args...), (result{tc.code, "", tc.want}); got != want {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestFailureInAJSONLogIsJSON(t *testing.T) {
	got := reap(t, []string{fakeFailure + "=port taken"}, "server", "--log-format=json")
	var record struct{ Level, Msg string }
	if err := json.Unmarshal([]byte(got.stderr), &record); err != nil {
		t.Fatalf("stderr %q: %v", got.stderr, err)
	}
	if got.code != exitRun || record.Level != "error" || record.Msg != "port taken" {
		t.Errorf("got code %d and %+v", got.code, record)
	}
}

func TestServerGetsItsOptionsAndContext(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(context.Background(), key{}, "mine")
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"reap", "server", "--config=", "--data-dir=/srv/reap", "--disable=gc"}, &stdout, &stderr,
		func(ctx context.Context, s config.Server, _ *outage.Outage) error {
			if ctx.Value(key{}) != "mine" {
				t.Error("the server got another context")
			}
			if s.DataDir != "/srv/reap" || !s.Disabled("gc") {
				t.Errorf("the server got %+v", s)
			}
			return nil
		})
	if code != exitOK || stdout.Len()+stderr.Len() != 0 {
		t.Errorf("code %d, stdout %q, stderr %q", code, &stdout, &stderr)
	}
}

func TestHelpIsReadable(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"server", "--help"}, {"help", "server"}, {"help", "kubectl"}, {"completion", "--help"}, {"certificate"}, {"certificate", "--help"}, {"help", "certificate"}, {"certificate", "check", "--help"}, {"certificate", "rotate", "--help"}, {"snapshot"}, {"snapshot", "--help"}, {"help", "snapshot"}, {"snapshot", "save", "--help"}, {"snapshot", "list", "--help"}, {"snapshot", "restore", "--help"}, {"snapshot", "prune", "--help"}, {"db"}, {"db", "--help"}, {"help", "db"}, {"db", "stats", "--help"}, {"db", "check", "--help"}, {"db", "compact", "--help"}, {"healthcheck", "--help"}, {"status", "--help"}, {"why", "--help"}, {"tree", "--help"}, {"lint", "--help"}, {"pause", "--help"}, {"resume", "--help"}} {
		got := reap(t, nil, args...)
		if got.code != exitOK || got.stderr != "" {
			t.Errorf("%q: code %d, stderr %q", args, got.code, got.stderr)
		}
		for line := range strings.Lines(got.stdout) {
			line = strings.TrimSuffix(line, "\n")
			if len(line) > helpWidth || strings.TrimRight(line, " ") != line {
				t.Errorf("%q: line of %d columns: %q", args, len(line), line)
			}
		}
	}
}

func TestHelpNamesFlagsAsTheyAreWritten(t *testing.T) {
	help := reap(t, nil, "why", "--help").stdout
	for _, part := range []string{"--namespace, -n NAME\n", "--output, -o FORMAT\n", "\nAccess\n", "\nObject\n", "\nOutput\n"} {
		if !strings.Contains(help, part) {
			t.Errorf("%q is not in the help:\n%s", part, help)
		}
	}
}

func TestEveryServerFlagIsInTheHelp(t *testing.T) {
	help := reap(t, nil, "server", "--help").stdout
	flags, _ := config.ServerFlags()
	for _, f := range flags {
		for _, name := range f.Names() {
			if !strings.Contains(help, "--"+name) {
				t.Errorf("--%s is not in the help", name)
			}
		}
	}
	for _, part := range []string{"USAGE", "EXAMPLES", "KEY=VALUE", "(default: 6443)"} {
		if !strings.Contains(help, part) {
			t.Errorf("%q is not in the help", part)
		}
	}
}

func TestVersion(t *testing.T) {
	if got, want := reap(t, nil, "--version"), (result{0, "reap version dev (commit unknown, built unknown)\n", ""}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	got := reap(t, nil, "version", "-o", "json")
	var b build
	if err := json.Unmarshal([]byte(got.stdout), &b); err != nil || got.code != exitOK || b != thisBuild() {
		t.Errorf("got %+v (%v), want %+v", got, err, thisBuild())
	}
	if b.Version != "dev" || !strings.HasPrefix(b.Kubernetes, "v") || b.Kine == "" || !strings.HasPrefix(b.Go, "go") {
		t.Errorf("the build is %+v", b)
	}
	for _, line := range []string{"reap        dev\n", "kubernetes  " + b.Kubernetes + "\n"} {
		if got := reap(t, nil, "version"); !strings.Contains(got.stdout, line) {
			t.Errorf("got %+v, want the line %q", got, line)
		}
	}
}

// TestHelpOfACommand is the same by reap help COMMAND, for commands of commands too; a mistyped one names the nearest.
func TestHelpOfACommand(t *testing.T) {
	for _, words := range [][]string{{"server"}, {"why"}, {"version"}, {"certificate"}, {"certificate", "rotate"}, {"plan", "delete"}} {
		want := reap(t, nil, append(slices.Clone(words), "--help")...)
		if got := reap(t, nil, append([]string{"help"}, words...)...); got != want || got.code != exitOK {
			t.Errorf("help %q: got %+v, want %+v", words, got, want)
		}
	}
	for _, tc := range []struct {
		words []string
		want  string
	}{
		{[]string{"sevrer"}, `unknown command "sevrer" (did you mean "server"?); see 'reap --help'`},
		{[]string{"certificate", "rotat"}, `unknown command "rotat" (did you mean "rotate"?); see 'reap certificate --help'`},
		{[]string{"server", "now"}, `unknown command "now"; see 'reap server --help'`},
	} {
		want := result{exitUsage, "", "reap: " + tc.want + "\n"}
		if got := reap(t, nil, append([]string{"help"}, tc.words...)...); got != want {
			t.Errorf("help %q: got %+v, want %+v", tc.words, got, want)
		}
	}
}
