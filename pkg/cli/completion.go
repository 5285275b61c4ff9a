package cli

import (
	"embed"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/reap-dev/reap/pkg/config"
)

// completionScripts ask the program itself what may come next, through urfave's hidden
// --generate-bash-completion, so that they need no change when a flag or command is added.
//
//go:embed completion
var completionScripts embed.FS

var shells = []string{"bash", "zsh", "fish"}

const completionExamples = `reap completion bash > /etc/bash_completion.d/reap
reap completion zsh > "${fpath[1]}/_reap"
reap completion fish > ~/.config/fish/completions/reap.fish`

func completionCommand() *cli.Command {
	return command(completionExamples, &cli.Command{
		Name:        "completion",
		Usage:       "print a shell's completion script",
		UsageText:   "reap completion " + strings.Join(shells, "|"),
		Description: "Prints a script that completes commands, flags and arguments in the named shell.",
		BashComplete: func(c *cli.Context) {
			fmt.Fprintln(c.App.Writer, strings.Join(shells, "\n"))
		},
		Action: func(c *cli.Context) error {
			const hint = "give one of bash, zsh, fish; see 'reap completion --help'"
			if c.Args().Len() != 1 {
				return fmt.Errorf("reap completion takes one shell's name: %s", hint)
			}
			shell := c.Args().First()
			script, err := completionScripts.ReadFile("completion/reap." + shell)
			if err != nil {
				text := fmt.Sprintf("no completion for %q", shell)
				if n := config.Nearest(shell, shells); n != "" {
					text += fmt.Sprintf(" (did you mean %q?)", n)
				}
				return fmt.Errorf("%s: %s", text, hint)
			}
			_, err = c.App.Writer.Write(script)
			return err
		},
	})
}

// completerName is the name under which kubectl runs what completes the arguments of its plugin kubectl-reap.
const completerName = "kubectl_complete-reap"

// completionRequest is the command line that a shell's script would ask with, for the words after
// `kubectl reap`, of which the last is being written.
func completionRequest(words []string) []string {
	if len(words) > 0 && words[0] == kubectlName {
		words = append([]string{kubectlName, "__complete"}, words[1:]...)
	} else {
		if last := len(words) - 1; last >= 0 && !strings.HasPrefix(words[last], "-") {
			words = words[:last]
		}
		words = append(slices.Clip(words), "--generate-bash-completion")
	}
	os.Args = append([]string{"reap"}, words...) // urfave looks there
	return os.Args
}
