package config

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/urfave/cli/v2"
)

// layers holds what a test sets in each layer. File names are relative to the main file's directory:
// "config.yaml", "config.yaml.d/10.yaml".
type layers struct {
	args  []string
	env   map[string]string
	files map[string]string
}

// load resolves layers as `reap server` does, with the default configuration file in a temporary directory,
// which it returns.
func load(t *testing.T, in layers) (Server, string, error) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range in.files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	s := DefaultServer()
	s.DataDir = "/default/reap"
	l := newLoader(s.options())
	l.configFile = filepath.Join(dir, "config.yaml")
	l.environment = in.env
	var err error
	app := &cli.App{
		Name: "reap", Flags: l.flags(), HideVersion: true, Writer: io.Discard, ErrWriter: io.Discard,
		ExitErrHandler: func(*cli.Context, error) {},
		Action: func(*cli.Context) error {
			err = l.load()
			return nil
		},
	}
	if parseErr := app.Run(append([]string{"reap"}, in.args...)); parseErr != nil {
		t.Fatalf("parsing %q: %v", in.args, parseErr)
	}
	return s, dir, err
}
