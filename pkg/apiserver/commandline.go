package apiserver

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// CommandLine is a command line of kube-apiserver, from programs that start reap in its place. It can be used for one
// [Start].
type CommandLine struct {
	// WithoutControllers leaves the admission plugins as kube-apiserver has them, also those whose controllers are not
	// reap's.
	WithoutControllers bool

	args []string
	run  *options.ServerRunOptions
	fs   *pflag.FlagSet
}

// ErrHelp and ErrVersion say that a command line asks for the help or the version instead of a server.
var (
	ErrHelp    = errors.New("the command line asks for help")
	ErrVersion = errors.New("the command line asks for the version")
)

// ParseCommandLine parses the arguments that follow kube-apiserver's name. It checks each flag by itself and changes
// nothing.
func ParseCommandLine(args []string) (*CommandLine, error) {
	run, fs := newRunOptions()
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	fs.BoolP("help", "h", false, "")
	fs.String("version", "", "") // kube-apiserver's takes a few words
	fs.Lookup("version").NoOptDefVal = "true"
	if err := set(fs, "feature-gates="+noIdentity); err != nil { // before what the command line says of the same gates
		return nil, fmt.Errorf("setting our own argument: %w", err)
	}
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case fs.Changed("help"):
		return nil, ErrHelp
	case fs.Changed("version"):
		return nil, ErrVersion
	case fs.NArg() > 0:
		return nil, fmt.Errorf("kube-apiserver takes no arguments, only flags, and got %q", fs.Arg(0))
	}
	return &CommandLine{args: args, run: run, fs: fs}, nil
}

// PrintHelp prints kube-apiserver's own help, which names every flag. It may be called once in a process, which should
// end then.
func PrintHelp(out io.Writer) error {
	c := app.NewAPIServerCommand()
	c.SetOut(out)
	return c.Help()
}

// PrintVersion prints what kube-apiserver --version does.
func PrintVersion(out io.Writer) error {
	_, err := fmt.Fprintf(out, "Kubernetes %s\n", version.Get())
	return err
}

// Verbosity returns the value of --v.
func (c *CommandLine) Verbosity() int { return int(c.run.Logs.Verbosity) }

// JSONLog reports whether the log should be JSON.
func (c *CommandLine) JSONLog() bool { return c.run.Logs.Format == "json" }

// unlessGiven are the few flags for which a server that is started by tests has other defaults than kube-apiserver's.
var unlessGiven = map[string]string{
	// Reads from the store are fast enough, and the cache keeps every object of every watched resource in memory.
	"watch-cache": "false",
	// A test's clients may keep watches open, which a stop would wait for.
	"shutdown-watch-termination-grace-period": "2s",
}

// options returns kube-apiserver's options. The server opens its own listener and makes its own serving certificate, if
// the command line names none.
func (c *CommandLine) options(runs func(controller string) bool) (*options.ServerRunOptions, error) {
	for name, value := range unlessGiven {
		if c.fs.Changed(name) {
			continue
		}
		if err := c.fs.Set(name, value); err != nil {
			return nil, fmt.Errorf("setting our own argument: %s: %w", name, err)
		}
	}
	if !c.WithoutControllers {
		disableAdmission(c.run.Admission.GenericAdmission, runs)
	}
	return c.run, nil
}
