package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
)

// errDeclined is the error of a command whose question was not answered with yes.
var errDeclined = errors.New("not confirmed; nothing was changed")

func yesFlag() *cli.BoolFlag {
	return &cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Category: "Confirmation", Usage: "do it without asking", DisableDefaultText: true}
}

// checkConfirmable refuses a command that can neither ask nor was told not to. It is called before anything else is done.
func checkConfirmable(c *cli.Context, first string) error {
	if c.Bool("yes") || terminal(os.Stdin) != nil {
		return nil
	}
	return fmt.Errorf("%s asks before it changes anything, and standard input is no terminal: give --yes to go ahead without a question, or see what it would do with '%s'; nothing was changed", c.Command.HelpName, first)
}

// confirm asks on the terminal, unless the command line has --yes. Anything but yes, also the end of ctx, is no.
func confirm(c *cli.Context, question string) error {
	if c.Bool("yes") {
		return nil
	}
	if yes, err := ask(c, question); err != nil || !yes {
		return errDeclined
	}
	return nil
}

// ask asks on the terminal and reports whether the answer is yes. Its error says that ctx ended before there was an answer.
func ask(c *cli.Context, question string) (yes bool, err error) {
	say(c.App.ErrWriter, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // reading a terminal does not end with ctx; the process does soon after
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case a := <-answer:
		return a == "y" || a == "yes", nil
	case <-c.Context.Done():
		fmt.Fprintln(c.App.ErrWriter)
		return false, context.Cause(c.Context)
	}
}
