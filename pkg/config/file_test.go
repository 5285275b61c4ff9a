package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigurationFileIsFound(t *testing.T) {
	const content = "bind-address: 10.0.0.1"
	named := filepath.Join(t.TempDir(), "named.yaml")
	if err := os.WriteFile(named, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	other := map[string]string{"config.yaml": "bind-address: 10.0.0.2"}
	for _, tc := range []struct {
		name string
		in   layers
		want string
	}{
		{"nowhere", layers{}, "127.0.0.1"},
		{"default", layers{files: other}, "10.0.0.2"},
		{"only .d", layers{files: map[string]string{"config.yaml.d/1.yaml": content}}, "10.0.0.1"},
		{"flag over default", layers{args: []string{"--config", named}, files: other}, "10.0.0.1"},
		{"environment over default", layers{env: map[string]string{"REAP_CONFIG": named}, files: other}, "10.0.0.1"},
		{
			"flag over environment",
			layers{args: []string{"--config", named}, env: map[string]string{"REAP_CONFIG": "/missing"}}, "10.0.0.1",
		},
		{"none", layers{args: []string{"--config="}, files: other}, "127.0.0.1"},
		{"empty", layers{files: map[string]string{"config.yaml": ""}}, "127.0.0.1"},
		{"only a comment", layers{files: map[string]string{"config.yaml": "# nothing\n"}}, "127.0.0.1"},
		{"only a separator", layers{files: map[string]string{"config.yaml": "---\n"}}, "127.0.0.1"},
		{
			"neither hidden files nor others in .d",
			layers{files: map[string]string{"config.yaml.d/.1.yaml": content, "config.yaml.d/1.yaml.bak": content}},
			"127.0.0.1",
		},
		{
			"aliases of YAML are followed",
			layers{files: map[string]string{"config.yaml": "tls-san: &a 10.0.0.1\nbind-address: *a"}}, "10.0.0.1",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _, err := load(t, tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if s.BindAddress != tc.want {
				t.Errorf("got %s, want %s", s.BindAddress, tc.want)
			}
		})
	}
}

func TestFileErrors(t *testing.T) {
	for _, tc := range []struct {
		name, content string
		// want follows the file's path in the error.
		want string
	}{
		{"unknown key", "log-level: info\ndata-dirr: /x", `:2: unknown option "data-dirr" (did you mean "data-dir"?)`},
		{"unknown key with +", "tls-sans+: [a]", `:1: unknown option "tls-sans" (did you mean "tls-san"?)`},
		{"underscores", "data_dir: /x", `:1: unknown option "data_dir" (did you mean "data-dir"?)`},
		{"dashes in front", "--data-dir: /x", `:1: unknown option "--data-dir" (did you mean "data-dir"?)`},
		{"nothing like it", "zzz: 1", `:1: unknown option "zzz"`},
		{"config", "config: /x", `:1: "config" cannot be given inside a configuration file: put more files into its .d directory`},
		{"twice", "log-level: info\nlog-level: warn", `:2: "log-level" is given twice: it is on line 1 already`},
		{"twice by alias", "gc-workers: 1\nconcurrent-gc-syncs: 1", `:2: "gc-workers" is given twice: it is on line 1 already`},
		{"twice with +", "tls-san: a\ntls-san+: b", `:2: "tls-san" is given twice: it is on line 1 already`},
		{"+ on a scalar", "log-level+: info", `:1: "log-level" takes one value, so there is nothing to append to: write it without the +`},
		{"list for a scalar", "log-level: [info]", `:1: "log-level" takes one value, not a list`},
		{"map for a scalar", "log-level: {a: b}", `:1: "log-level" takes one value, not a map`},
		{"map for a list", "kube-apiserver-arg: {a: b}", `:1: "kube-apiserver-arg" takes a list, not a map`},
		{"list in a list", "tls-san: [[a]]", `:1: "tls-san" takes a list of plain values; one of these is a list, a map or null`},
		{"null in a list", "tls-san: [~]", `:1: "tls-san" takes a list of plain values; one of these is a list, a map or null`},
		{"no value", "log-level:", `:1: "log-level" has no value`},
		{"no list", "tls-san:", `:1: "tls-san" has no value: write [] for an empty list`},
		{"not a map", "- a", `:1: a configuration file is made of lines such as "data-dir: /srv/reap"`},
		{"two documents", "log-level: info\n---\nlog-level: warn", `:2: a second YAML document: a configuration file holds one`},
		{"not YAML", "log-level: info\n  data-dir: /x", `: not valid YAML: line 2: mapping values are not allowed in this context`},
		{"tab", "log-level:\n\t- a", `: not valid YAML: line 2: found character that cannot start any token`},
	} {
		for _, name := range []string{"config.yaml", "config.yaml.d/1.yaml"} {
			t.Run(tc.name+"/"+name, func(t *testing.T) {
				_, dir, err := load(t, layers{files: map[string]string{name: tc.content}})
				wantError(t, err, filepath.Join(dir, name)+tc.want)
			})
		}
	}
}

func TestUnreadableFiles(t *testing.T) {
	const hint = "; correct it, or give --config= to read none"
	t.Run("missing, named by flag", func(t *testing.T) {
		_, _, err := load(t, layers{args: []string{"--config=/missing/reap.yaml"}})
		wantError(t, err, "reading configuration file /missing/reap.yaml: no such file or directory"+hint)
	})
	t.Run("missing, named by environment", func(t *testing.T) {
		_, _, err := load(t, layers{env: map[string]string{"REAP_CONFIG": "/missing/reap.yaml"}})
		wantError(t, err, "reading configuration file /missing/reap.yaml: no such file or directory"+hint)
	})
	t.Run("directory in place of the file", func(t *testing.T) {
		_, dir, err := load(t, layers{files: map[string]string{"config.yaml/x": ""}})
		wantError(t, err, "reading configuration file "+filepath.Join(dir, "config.yaml")+": is a directory"+hint)
	})
	t.Run("file in place of the .d directory", func(t *testing.T) {
		_, dir, err := load(t, layers{files: map[string]string{"config.yaml.d": ""}})
		wantError(t, err, "reading configuration file "+filepath.Join(dir, "config.yaml.d")+": not a directory"+hint)
	})
	t.Run("directory among the .d files", func(t *testing.T) {
		_, dir, err := load(t, layers{files: map[string]string{"config.yaml.d/1.yaml/x": ""}})
		wantError(t, err, "reading configuration file "+filepath.Join(dir, "config.yaml.d/1.yaml")+": is a directory"+hint)
	})
	t.Run("not permitted", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("root may read everything")
		}
		file := filepath.Join(t.TempDir(), "secret.yaml")
		if err := os.WriteFile(file, nil, 0o200); err != nil {
			t.Fatal(err)
		}
		_, _, err := load(t, layers{args: []string{"--config", file}})
		wantError(t, err, "reading configuration file "+file+": permission denied"+hint)
	})
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", want)
	}
	if err.Error() != want {
		t.Errorf("got error\n  %s\nwant\n  %s", err, want)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error has more than one line: %q", err)
	}
}
