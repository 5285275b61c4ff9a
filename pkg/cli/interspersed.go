package cli

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// flagsFirst moves a command's flags before its arguments: urfave stops looking for flags at the first
// argument, and whoever knows kubectl writes reap why deployments/web -n shop. What follows -- stays where
// it is.
func flagsFirst(commands []*cli.Command, args []string) []string {
	if len(args) < 3 || slices.Contains(args, "--generate-bash-completion") {
		return args
	}
	command, depth := findCommand(commands, args)
	if command == nil || command.SkipFlagParsing || len(command.Subcommands) > 0 {
		return args
	}
	takesValue := map[string]bool{}
	for _, f := range command.Flags {
		for _, name := range f.Names() {
			takesValue[name] = takesNextWord(f)
		}
	}
	flags, rest := slices.Clone(args[:depth]), []string(nil)
	for i := depth; i < len(args); i++ {
		switch word := args[i]; {
		case word == "--":
			return slices.Concat(flags, rest, args[i:])
		case len(word) < 2 || word[0] != '-':
			rest = append(rest, word)
		default:
			flags = append(flags, word)
			if name := strings.TrimLeft(word, "-"); takesValue[name] {
				if i++; i == len(args) {
					return flags // the parser says that its value is missing, and takes no argument for it
				}
				flags = append(flags, args[i])
			}
		}
	}
	return append(flags, rest...)
}

// takesNextWord reports whether a flag's value may be the word after it. urfave says so of every generic flag, also of one
// whose value may be left out, which the parser takes only after an equals sign.
func takesNextWord(f cli.Flag) bool {
	if g, generic := f.(*cli.GenericFlag); generic {
		if b, ok := g.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
			return false
		}
	}
	d, documented := f.(cli.DocGenerationFlag)
	return documented && d.TakesValue()
}

// findCommand returns the command, or a command's subcommand, that args begin with, and how many of args name
// it; nil if there is none.
func findCommand(commands []*cli.Command, args []string) (command *cli.Command, depth int) {
	for depth = 1; depth < len(args); depth++ {
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(args[depth]) })
		if i < 0 {
			break
		}
		command, commands = commands[i], commands[i].Subcommands
	}
	return command, depth
}
