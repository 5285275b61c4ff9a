package cli

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/tests/goldenfile"
)

const referenceHead = `<!-- Made from the program: change the help texts in pkg/cli and pkg/config, then './scripts/test -update TestReferenceOfCommands'. -->
# Commands

` + "`reap help COMMAND` and `reap COMMAND --help` show the same in a terminal." + `

`

const referenceTail = `## Exit codes

| code | |
|---|---|
| 0 | done |
| 1 | what was asked for failed, or the answer is no: ` + "`reap lint` found something, `reap healthcheck` has no ready server" + ` |
| 2 | the command line or the configuration is wrong; nothing was done |
| 3 | the answer is incomplete: ` + "`reap lint`, `reap tree` or `reap relink`" + ` could not read everything, or was given a namespace that does not exist, and nothing wrong was seen in the rest; a pause that was asked for, or its end, changed nothing, and the collector could not be asked |
| 130 | Ctrl-C ended the command; 143 after SIGTERM and 129 after SIGHUP. ` + "`reap server`" + ` ends with 0 after each of them |

` + "`reap kubectl` ends with kubectl's own exit codes." + `

## Configuration

An option of a server is a flag, an environment variable and a key of a YAML file at once. The flag wins over the variable, the
variable over the files, a later file over an earlier one, and a file over the default. The variable is in the tables above; the key
is the flag's name without its dashes. The files are ` + "`/etc/reap/config.yaml`" + ` (` + "`--config`" + ` names another) and then
` + "`/etc/reap/config.yaml.d/*.yaml`" + ` in the order of their names. A list in a later file replaces an earlier one; the key with a
` + "`+`" + ` behind it appends to it instead. An unknown key is an error.

` + "```yaml" + `
# /etc/reap/config.yaml
tls-san: [edge-1.example.com]
kube-apiserver-arg+: [event-ttl=24h]
` + "```" + `

The commands that talk to a server read its data directory from the same places. Without any of them it is ` + "`/var/lib/reap`" + `
for root, and ` + "`reap`" + ` below the XDG data home, ` + "`~/.local/share/reap`" + `, for an ordinary user.

## Other environment variables

`

// otherVariables are the environment variables that no option stands for. read is how the code names them.
var otherVariables = []struct{ name, read, use string }{
	{"KUBECONFIG", "clientcmd.RecommendedConfigPathEnvVar", "kubeconfig files of the server to talk to, as for kubectl"},
	{"XDG_DATA_HOME", "", "the data directory of an ordinary user is `$XDG_DATA_HOME/reap`, or `~/.local/share/reap` without it; root's is `/var/lib/reap`"},
	{"XDG_CACHE_HOME", "", "where `reap envtest use` makes its folder: `$XDG_CACHE_HOME/reap/envtest`, or `~/.cache/reap/envtest` without it"},
	{"PATH", "", "where `reap service install` looks for a kubectl before it links one"},
	{"NO_COLOR", "", "no colours on a terminal, if it has any value"},
	{"GOGC", "", "how much garbage may gather before memory is collected, in percent of what is in use: 50 until a server is ready and 100 then, if it is not set"},
	{"NOTIFY_SOCKET", "notifyVariable", "where a server tells systemd that it is ready (`Type=notify`); systemd sets it"},
}

// TestReferenceOfCommands holds docs/cli.md against the program: every command, flag and variable is there.
func TestReferenceOfCommands(t *testing.T) {
	app := newApp(io.Discard, io.Discard, nil)
	var b strings.Builder
	b.WriteString(referenceHead)
	b.WriteString("| command | |\n|---|---|\n")
	all := leaves("reap", app.Commands)
	for _, c := range all {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", c.name, strings.ReplaceAll(c.name, " ", "-"), c.Usage)
	}
	b.WriteString("\n")
	for _, c := range all {
		describe(&b, c)
	}
	b.WriteString(referenceTail)
	b.WriteString("| variable | |\n|---|---|\n")
	for _, v := range otherVariables {
		fmt.Fprintf(&b, "| `%s` | %s |\n", v.name, v.use)
	}
	goldenfile.File(t, filepath.Join("..", "..", "docs", "cli.md"), b.String())
}

// A named command has its whole name, with those of the commands above it.
type named struct {
	name string
	*cli.Command
}

// leaves returns the commands that do something, sorted by name.
func leaves(above string, commands []*cli.Command) (all []named) {
	for _, c := range commands {
		name := above + " " + c.Name
		switch {
		case c.Hidden:
		case len(c.Subcommands) > 0:
			all = append(all, leaves(name, c.Subcommands)...)
		default:
			all = append(all, named{name, c})
		}
	}
	slices.SortFunc(all, func(x, y named) int { return strings.Compare(x.name, y.name) })
	return all
}

// describe writes a command's part of the reference.
func describe(b *strings.Builder, c named) {
	fmt.Fprintf(b, "## %s\n\n%s.\n\n```\n%s\n```\n\n%s\n\n", c.name, capital(c.Usage), c.UsageText, c.Description)
	for _, category := range categories(c.Command) {
		fmt.Fprintf(b, "### %s: %s\n\n| flag | variable | default | |\n|---|---|---|---|\n", c.name, category)
		for _, f := range c.Flags {
			if d, ok := f.(cli.DocGenerationFlag); ok && categoryOf(f) == category {
				describeFlag(b, f, d)
			}
		}
		b.WriteString("\n")
	}
	if _, examples, has := strings.Cut(c.CustomHelpTemplate, "\nEXAMPLES\n"); has {
		lines := strings.Split(strings.TrimRight(examples, "\n"), "\n")
		for i := range lines {
			lines[i] = strings.TrimPrefix(lines[i], "   ")
		}
		fmt.Fprintf(b, "### %s: examples\n\n```\n%s\n```\n\n", c.name, strings.Join(lines, "\n"))
	}
}

func describeFlag(b *strings.Builder, f cli.Flag, d cli.DocGenerationFlag) {
	_, usage := splitUsage(d)
	variable, preset := "", ""
	if env := config.Environment(f); env != "" {
		variable = "`" + env + "`"
	}
	switch text := d.GetDefaultText(); {
	case text == config.DefaultServer().DataDir:
		preset = "see below" // that of whoever runs the test
	case text != "":
		preset = "`" + text + "`"
	}
	fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", flagSynopsis(d), variable, preset, strings.ReplaceAll(usage, "|", `\|`))
}

// categories returns those of a command's flags, sorted as in its help.
func categories(c *cli.Command) (names []string) {
	for _, f := range c.Flags {
		if name := categoryOf(f); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func categoryOf(f cli.Flag) string { return f.(cli.CategorizableFlag).GetCategory() }

// The help leaves out flags without a category.
func TestHelpHasEveryFlag(t *testing.T) {
	for _, c := range leaves("reap", newApp(io.Discard, io.Discard, nil).Commands) {
		var help strings.Builder
		cli.HelpPrinter(&help, c.CustomHelpTemplate, c.Command)
		for _, f := range c.Flags {
			if synopsis := flagSynopsis(f.(cli.DocGenerationFlag)); !strings.Contains(help.String(), "\n   "+synopsis+"\n") {
				t.Errorf("%s --help does not show %s", c.name, synopsis)
			}
		}
	}
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// Each environment variable that the code reads is an option or in the reference.
func TestReferenceHasEveryEnvironmentVariable(t *testing.T) {
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			read := types.ExprString(call.Fun)
			if read != "os.Getenv" && read != "os.LookupEnv" {
				return true
			}
			name := types.ExprString(call.Args[0])
			for _, v := range otherVariables {
				if v.read == name || fmt.Sprintf("%q", v.name) == name {
					return true
				}
			}
			t.Errorf("%s reads the environment variable %s: add it to otherVariables of reference_test.go", path, name)
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
