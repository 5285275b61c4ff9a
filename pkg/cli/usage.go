package cli

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/reap-dev/reap/pkg/config"
)

// usageError says in one sentence what the flag package found. That package has no error types, so its
// two usual messages are recognized by their beginnings; any other is passed on as it is.
func usageError(c *cli.Context, err error, _ bool) error {
	text := err.Error()
	if name, found := strings.CutPrefix(text, "flag provided but not defined: -"); found {
		text = "unknown flag " + dashed(name)
		if n := config.Nearest(name, flagNames(c.Command)); n != "" {
			text += " (did you mean " + dashed(n) + "?)"
		}
	} else if name, found := strings.CutPrefix(text, "flag needs an argument: -"); found {
		text = dashed(name) + " needs a value"
	}
	return fmt.Errorf("%s; see '%s --help'", text, c.Command.HelpName)
}

// dashed writes a flag's name as it is given.
func dashed(name string) string {
	if name = strings.TrimLeft(name, "-"); len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func flagNames(c *cli.Command) []string {
	var names []string
	for _, f := range c.Flags {
		names = append(names, f.Names()...)
	}
	return names
}

// showSubcommands is the action of a command that has subcommands alone.
func showSubcommands(c *cli.Context) error {
	if c.Args().Present() {
		return unknownCommand(c.Args().First(), c.Command.VisibleCommands(), c.Command.HelpName)
	}
	return cli.ShowSubcommandHelp(c)
}

// unknownCommand is the error for a word that is none of the commands of the program, or of the command that helpName
// is.
func unknownCommand(word string, commands []*cli.Command, helpName string) error {
	var names []string
	for _, command := range commands {
		names = append(names, command.Names()...)
	}
	text := fmt.Sprintf("unknown command %q", word)
	if n := config.Nearest(word, names); n != "" {
		text += fmt.Sprintf(" (did you mean %q?)", n)
	}
	return fmt.Errorf("%s; see '%s --help'", text, helpName)
}

// noArguments refuses what is left of a command line after its flags. A value with the looks of a URL
// is not repeated: it may be a datastore endpoint, with its password, that lost its flag.
func noArguments(c *cli.Context) error {
	if !c.Args().Present() {
		return nil
	}
	word := fmt.Sprintf("%q", c.Args().First())
	if strings.Contains(word, "://") {
		word = "a URL"
	}
	return fmt.Errorf("%s takes no arguments, only flags, and got %s; see '%s --help'",
		c.Command.HelpName, word, c.Command.HelpName)
}
