package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
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
		"reap why a -n":                            "reap why -n a",
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
