package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/reap-dev/reap/pkg/config"
)

// writeKubeconfig writes one whose contexts a, b … lead to https://NAME-a, https://NAME-b …; the current
// one is the first.
func writeKubeconfig(t *testing.T, path, name string, contexts ...string) {
	t.Helper()
	var clusters, list strings.Builder
	for _, c := range contexts {
		fmt.Fprintf(&clusters, "- {name: %s, cluster: {server: 'https://%s-%s'}}\n", c, name, c)
		fmt.Fprintf(&list, "- {name: %s, context: {cluster: %s}}\n", c, c)
	}
	writeFile(t, path, "apiVersion: v1\nkind: Config\ncurrent-context: "+contexts[0]+
		"\nclusters:\n"+clusters.String()+"contexts:\n"+list.String())
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// find parses args as a client command's and returns what connect makes of them.
func find(t *testing.T, args ...string) (host, source string, err error) {
	t.Helper()
	flags, client := config.ClientFlags(nil)
	var out bytes.Buffer
	app := &cli.App{Flags: flags, Writer: &out, ErrWriter: &out, Action: func(*cli.Context) error {
		c, e := connect(client)
		if err = e; e == nil {
			host, source = c.config.Host, c.source
		}
		return nil
	}}
	if e := app.RunContext(context.Background(), append([]string{"reap"}, args...)); e != nil {
		t.Fatalf("%v\n%s", e, &out)
	}
	return host, source, err
}

// TestServerIsFoundInThisOrder has everything there at first, and takes away what decided, one by one.
func TestServerIsFoundInThisOrder(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	path := func(name string) string { return filepath.Join(home, name) }
	writeKubeconfig(t, path("flag"), "flag", "a", "b")
	writeKubeconfig(t, path("env1"), "env1", "a")
	writeKubeconfig(t, path("env2"), "env2", "a", "c")
	writeKubeconfig(t, path("given/admin.kubeconfig"), "given", "a")
	writeKubeconfig(t, path("local/admin.kubeconfig"), "local", "a")
	writeKubeconfig(t, path("filed/admin.kubeconfig"), "filed", "a")
	writeKubeconfig(t, path(".kube/config"), "home", "a")
	writeFile(t, path("config.yaml"), "data-dir: "+path("filed")+"\n")
	env := path("env1") + ":" + path("missing") + ":" + path("env2")

	for _, tc := range []struct {
		kubeconfig, dataDir, config string // of the environment
		args                        []string
		host, source                string
	}{
		{env, path("local"), path("config.yaml"), []string{"--kubeconfig=" + path("flag")}, "flag-a", path("flag")},
		{env, path("local"), path("config.yaml"), []string{"--kubeconfig", path("flag"), "--context=b"}, "flag-b", path("flag")},
		{env, path("local"), path("config.yaml"), []string{"--data-dir=" + path("given")}, "given-a", path("given/admin.kubeconfig")},
		{env, path("local"), path("config.yaml"), nil, "env1-a", "$KUBECONFIG (" + env + ")"},
		{env, "", "", []string{"--context=c"}, "env2-c", "$KUBECONFIG (" + env + ")"},
		{"", path("local"), path("config.yaml"), nil, "local-a", path("local/admin.kubeconfig")},
		// What the environment answers needs no file.
		{"", path("local"), path("no-such.yaml"), nil, "local-a", path("local/admin.kubeconfig")},
		{"", "", path("config.yaml"), nil, "filed-a", path("filed/admin.kubeconfig")},
		{"", path("local"), "", []string{"--config=" + path("config.yaml")}, "local-a", path("local/admin.kubeconfig")},
		{"", path("no-server"), path("config.yaml"), nil, "home-a", path(".kube/config")},
		{"", path("flag"), "", nil, "home-a", path(".kube/config")}, // no directory at all
	} {
		t.Setenv("KUBECONFIG", tc.kubeconfig)
		t.Setenv("REAP_DATA_DIR", tc.dataDir)
		t.Setenv("REAP_CONFIG", tc.config)
		host, source, err := find(t, tc.args...)
		if host != "https://"+tc.host || source != tc.source || err != nil {
			t.Errorf("%+v: got %s from %s (%v)", tc, host, source, err)
		}
	}
}

func TestNoServerIsFoundAndSaysWhere(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	path := func(name string) string { return filepath.Join(home, name) }
	writeKubeconfig(t, path("some"), "some", "a", "b")
	writeKubeconfig(t, path("undecided"), "some", "a", "b")
	raw, err := os.ReadFile(path("undecided"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path("undecided"), strings.Replace(string(raw), "current-context: a\n", "", 1))
	writeFile(t, path("empty"), "")
	writeFile(t, path("broken"), "{")
	writeFile(t, path("wrong.yaml"), "data-dirr: /x\n")

	for _, tc := range []struct {
		kubeconfig, config string // of the environment
		args               []string
		want               string
	}{
		{
			want: "no server to talk to: neither --kubeconfig nor $KUBECONFIG is given, and none of these exists: " +
				path("data/admin.kubeconfig") + ", " + path(".kube/config") + "; start one with 'reap server', or give --kubeconfig",
		},
		{
			args: []string{"--kubeconfig=/a/b", "--data-dir=/c"},
			want: "--kubeconfig and --data-dir each name a server: give one of them",
		},
		{args: []string{"--kubeconfig=" + path("x")}, want: "--kubeconfig: there is no file " + path("x")},
		{
			args: []string{"--data-dir=" + path("x")},
			want: "--data-dir: no server has run on " + path("x") + ": start it with 'reap server --data-dir " + path("x") + "'",
		},
		{
			kubeconfig: path("x") + ":" + path("y"),
			want:       "no file of $KUBECONFIG (" + path("x") + ":" + path("y") + ") exists: correct it, or give --kubeconfig",
		},
		{
			kubeconfig: path("some"), args: []string{"--context=c"},
			want: "--context: $KUBECONFIG (" + path("some") + ") has no context \"c\", but: a, b",
		},
		{
			args: []string{"--kubeconfig", path("empty")},
			want: "reading the kubeconfig " + path("empty") + ": it names no server; correct it, or name another with --kubeconfig",
		},
		{args: []string{"--kubeconfig", path("undecided")}, want: "it has no current context: choose one with --context, of a, b;"},
		{args: []string{"--kubeconfig", path("broken")}, want: path("broken")},
		{config: path("wrong.yaml"), want: "looking for this machine's server: " + path("wrong.yaml") + ":1: unknown option \"data-dirr\" (did you mean \"data-dir\"?); or say which server with --kubeconfig"},
	} {
		t.Setenv("KUBECONFIG", tc.kubeconfig)
		t.Setenv("REAP_CONFIG", cmp.Or(tc.config, path("empty")))
		t.Setenv("REAP_DATA_DIR", "")
		if tc.config == "" {
			t.Setenv("REAP_DATA_DIR", path("data"))
		}
		host, source, err := find(t, tc.args...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: got %s from %s, %v", tc, host, source, err)
		}
	}
}

// TestUnreadableLocalKubeconfigIsNoReasonToAskAnotherServer is what keeps a delete from another cluster.
func TestUnreadableLocalKubeconfigIsNoReasonToAskAnotherServer(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("KUBECONFIG", "")
	t.Setenv("REAP_DATA_DIR", filepath.Join(home, "data"))
	writeKubeconfig(t, filepath.Join(home, ".kube/config"), "home", "a")
	// A directory cannot be read as a file, by root neither.
	local := filepath.Join(home, "data/admin.kubeconfig")
	if err := os.MkdirAll(local, 0o700); err != nil {
		t.Fatal(err)
	}
	if host, source, err := find(t); err == nil || !strings.Contains(err.Error(), local) {
		t.Errorf("got %s from %s, %v", host, source, err)
	}
}
