// Package cli is reap's command line: the commands, one file each, their help, and how errors and logs
// are printed. What a command does is elsewhere; what its options are is in pkg/config.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore/outage"
	"github.com/reap-dev/reap/pkg/escape"
	"github.com/reap-dev/reap/pkg/server"
)

// The exit codes.
const (
	exitOK         = 0
	exitRun        = 1 // what was asked for failed
	exitUsage      = 2 // what was asked for is not understood, or the configuration is wrong; nothing was done
	exitIncomplete = 3 // not everything that was asked for could be looked at, and nothing wrong was seen in the rest
	exitInterrupt  = 130
)

// Run runs the command that args, whose first element is the program's own name, ask for. It returns
// the exit code, having printed one line to stderr for any error. Cancelling ctx asks the command to end.
// kubectl and etcd are different: see runKubectl and runEtcd.
//
// It sets up process-wide logging, so it is called once in a process.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return run(ctx, args, stdout, stderr, server.Run)
}

// runServer is what `reap server` runs: server.Run, or a test's own.
type runServer func(ctx context.Context, options config.Server, down *outage.Outage) error

func run(ctx context.Context, args []string, stdout, stderr io.Writer, serve runServer) int {
	switch filepath.Base(args[0]) {
	case kubectlName:
		runKubectl(args[1:])
		return exitOK
	case etcdName:
		runEtcd(args[1:])
		return exitOK
	case kubeAPIServerName:
		return runKubeAPIServer(ctx, args[1:], stdout, stderr)
	case completerName:
		args = completionRequest(args[1:])
	}
	app := newApp(stdout, stderr, serve)
	err := app.RunContext(ctx, flagsFirst(app.Commands, args))
	var failed *runError
	switch {
	case err == nil:
	case errors.As(err, &failed):
		failed.print(stderr)
	default:
		printError(stderr, err)
		return exitUsage
	}
	command, _ := findCommand(app.Commands, args)
	switch interrupt := (&interrupted{}); {
	case errors.As(context.Cause(ctx), &interrupt) && (command == nil || command.Name != "server"):
		return interrupt.exitCode()
	case err == nil:
		return exitOK
	case failed.code != 0:
		return failed.code
	}
	return exitRun
}

func newApp(stdout, stderr io.Writer, serve runServer) *cli.App {
	return &cli.App{
		Name:  "reap",
		Usage: "a Kubernetes API server that deletes what nothing owns any more",
		Description: "reap server is a whole control plane in one process: a Kubernetes API server over SQLite, " +
			"and a garbage collector for owned objects.",
		Version: version(),
		Commands: []*cli.Command{
			serverCommand(stderr, serve),
			statusCommand(),
			whyCommand(),
			planCommand(),
			treeCommand(),
			lintCommand(),
			relinkCommand(),
			deleteCommand(),
			releaseCommand(),
			pauseCommand(),
			resumeCommand(),
			healthcheckCommand(),
			snapshotCommand(),
			dbCommand(),
			certificateCommand(),
			serviceCommand(),
			envtestCommand(),
			kubectlCommand(),
			completionCommand(),
			versionCommand(),
			helpCommand(),
		},
		CustomAppHelpTemplate: appHelp,
		Flags:                 []cli.Flag{cli.HelpFlag}, // which urfave leaves out where a command is called help
		EnableBashCompletion:  true,
		Writer:                stdout,
		ErrWriter:             stderr,
		// urfave's own would print the error its way and end the process from where it stands.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   usageError,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownCommand(c.Args().First(), c.App.VisibleCommands(), c.App.Name)
			}
			return cli.ShowAppHelp(c)
		},
	}
}

// A runError is a failure of a command that was understood.
type runError struct {
	err error
	// print prints the error the way that the command's options ask for.
	print func(stderr io.Writer)
	// code is the exit code; 0 stands for exitRun.
	code int
}

// failed makes an error of a command that was understood a runError that is printed as a line; nil stays.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return &runError{err: err, print: func(stderr io.Writer) { printError(stderr, err) }}
}

func (e *runError) Error() string { return e.err.Error() }
func (e *runError) Unwrap() error { return e.err }

func printError(stderr io.Writer, err error) {
	fmt.Fprintln(stderr, "reap: "+oneLine(err))
}

// oneLine joins the lines of an error, such as of errors.Join, so that whoever reads a log by lines sees
// all of it.
func oneLine(err error) string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return escape.Text(strings.Join(lines, "; "))
}
