package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// helpWidth is the number of columns the help is folded at. Examples are not folded: write them short.
const helpWidth = 100

// urfave folds lines at 10,000 columns, except for whoever replaces its printer, a package variable.
func init() {
	cli.HelpPrinter = func(out io.Writer, template string, data any) {
		cli.HelpPrinterCustom(out, template, data, map[string]any{
			"wrapAt":    func() int { return helpWidth },
			"flagNames": flagSynopsis,
			"flagUsage": flagUsage,
		})
	}
}

const appHelp = `{{.Name}} - {{.Usage}}

{{wrap .Description 0}}

USAGE
   {{.HelpName}} COMMAND [flags]

COMMANDS{{range .VisibleCommands}}
   {{.Name}}{{"\t"}}{{.Usage}}{{end}}

FLAGS
   --help{{"\t"}}show help, here or after a command
   --version{{"\t"}}print the version

EXAMPLES
   reap server
   reap kubectl get namespaces
`

// command gives a command what all have: help with examples, and errors of one form.
func command(examples string, c *cli.Command) *cli.Command {
	c.CustomHelpTemplate = commandHelp(examples)
	c.HideHelpCommand = true
	c.OnUsageError = usageError
	return c
}

// commandHelp is a command's help: its flags by category, each with its usage below its name, and its
// examples, which urfave has no place for.
func commandHelp(examples string) string {
	help := `{{.HelpName}} - {{.Usage}}

USAGE
   {{.UsageText}}

{{wrap .Description 0}}
{{range .VisibleFlagCategories}}{{if .Name}}
{{.Name}}
{{range .Flags}}   {{flagNames .}}
      {{wrap (flagUsage .) 6}}
{{end}}{{end}}{{end}}`
	if examples != "" {
		help += "\nEXAMPLES\n   " + strings.ReplaceAll(examples, "\n", "\n   ") + "\n"
	}
	return strings.ReplaceAll(help, "\n   \n", "\n\n")
}

// flagSynopsis is a flag's names and its value's placeholder: --output, -o FORMAT, or --new-store[=BOOL].
func flagSynopsis(f cli.DocGenerationFlag) string {
	var names []string
	for _, n := range f.Names() {
		dashes := "--"
		if len(n) == 1 {
			dashes = "-"
		}
		names = append(names, dashes+n)
	}
	placeholder, _ := splitUsage(f)
	if placeholder != "" && !strings.HasPrefix(placeholder, "[=") {
		placeholder = " " + placeholder
	}
	return strings.Join(names, ", ") + placeholder
}

// flagUsage is what a flag is for, and its default.
func flagUsage(f cli.DocGenerationFlag) string {
	_, usage := splitUsage(f)
	if d := f.GetDefaultText(); d != "" {
		usage += " (default: " + d + ")"
	}
	return usage
}

const helpExamples = `reap help server
reap help plan delete`

// helpCommand replaces urfave's, which knows no commands of commands.
func helpCommand() *cli.Command {
	return command(helpExamples, &cli.Command{
		Name:        "help",
		Aliases:     []string{"h"},
		Usage:       "show the help of a command",
		UsageText:   "reap help [COMMAND…]",
		Description: "Shows the same as --help after the command.",
		BashComplete: func(c *cli.Context) {
			for _, command := range c.App.VisibleCommands() {
				fmt.Fprintln(c.App.Writer, command.Name)
			}
		},
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return cli.ShowAppHelp(c)
			}
			commands, helpName := c.App.Commands, c.App.HelpName
			var found *cli.Command
			for _, word := range c.Args().Slice() {
				i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(word) })
				if i < 0 {
					return unknownCommand(word, commands, helpName)
				}
				found = commands[i]
				commands, helpName = found.Subcommands, helpName+" "+found.Name
				found.HelpName = helpName
			}
			cli.HelpPrinter(c.App.Writer, found.CustomHelpTemplate, found)
			return nil
		},
	})
}

// splitUsage takes apart a usage text that begins with its placeholder in backquotes, as pkg/config
// writes them. A flag that is given without a value has none.
func splitUsage(f cli.DocGenerationFlag) (placeholder, usage string) {
	rest, has := strings.CutPrefix(f.GetUsage(), "`")
	if !has {
		return "", rest
	}
	placeholder, usage, _ = strings.Cut(rest, "` ")
	return placeholder, usage
}
