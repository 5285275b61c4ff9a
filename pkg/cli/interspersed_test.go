package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/reap-dev/reap/pkg/config"
)

func TestFlagsMayFollowArguments(t *testing.T) {
	commands := []*cli.Command{
		{Name: "why", Flags: []cli.Flag{&cli.StringFlag{Name: "namespace", Aliases: []string{"n"}}, &cli.BoolFlag{Name: "quiet"}}},
		{Name: "kubectl", SkipFlagParsing: true},
		{Name: "certificate", Subcommands: []*cli.Command{{Name: "rotate", Flags: []cli.Flag{&cli.StringFlag{Name: "output", Aliases: []string{"o"}}}}}},
	}
	for in, want := range map[string]string{
		"reap why a/b -n shop --quiet":             "reap why -n shop --quiet a/b",
		"reap why -n shop a/b":                     "reap why -n shop a/b",
		"reap why a --namespace=shop b":            "reap why --namespace=shop a b",
		"reap why a --quiet b":                     "reap why --quiet a b",
		"reap why a -n":                            "reap why -n",
		"reap why a --unknown b":                   "reap why --unknown a b",
		"reap why a -- -n shop":                    "reap why a -- -n shop",
		"reap why a - b":                           "reap why a - b",
		"reap kubectl get a -n shop":               "reap kubectl get a -n shop",
		"reap other a -n shop":                     "reap other a -n shop",
		"reap why a -n --generate-bash-completion": "reap why a -n --generate-bash-completion",
		"reap certificate rotate admin -o json":    "reap certificate rotate -o json admin",
		"reap certificate rotate admin rotate":     "reap certificate rotate admin rotate",
		"reap certificate other -o json":           "reap certificate other -o json",
		"reap why":                                 "reap why",
		"reap":                                     "reap",
	} {
		if got := flagsFirst(commands, strings.Fields(in)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %q", in, got)
		}
	}
}

// TestServerFlagsBeforeOthers gives each flag of `reap server` before two others, as its help shows it: the others arrive.
func TestServerFlagsBeforeOthers(t *testing.T) {
	values := map[string]string{
		"disable": "gc", "datastore-endpoint": "etcd", "bind-address": "::1", "tls-san": "a", "kube-apiserver-arg": "a=1", "gc-ignore": "pods",
		"sqlite-synchronous": "full", "write-kubeconfig-mode": "0640", "gc-after-restore": "run", "log-format": "json", "config": "",
	}
	flags, _ := config.ServerFlags()
	for _, f := range flags {
		name := f.Names()[0]
		if name == "data-dir" || name == "log-level" {
			continue
		}
		words := []string{"--" + name}
		if synopsis := flagSynopsis(f.(cli.DocGenerationFlag)); strings.Contains(synopsis, " ") {
			value, special := values[name]
			if !special {
				value = map[bool]string{true: "2m", false: "2"}[strings.Contains(synopsis, "INTERVAL") || strings.Contains(synopsis, "DURATION")]
			}
			words = append(words, value)
		}
		flags, load := config.ServerFlags()
		app := &cli.App{Name: "reap", Commands: []*cli.Command{{Name: "server", Flags: flags, Action: noArguments}}, ExitErrHandler: func(*cli.Context, error) {}}
		args := slices.Concat([]string{"reap", "server", "--config", ""}, words, []string{"--data-dir", "/srv/reap", "--log-level", "debug"})
		if err := app.Run(flagsFirst(app.Commands, args)); err != nil {
			t.Errorf("%q: %v", args, err)
			continue
		}
		if s, err := load(); err != nil || s.DataDir != "/srv/reap" || s.Log.Level != "debug" {
			t.Errorf("%q: the data directory is %q and the level %q (%v)", args, s.DataDir, s.Log.Level, err)
		}
	}
}
