package cli

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	kubernetes "k8s.io/component-base/version"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/envtest"
)

const envtestDescription = `use makes a folder of programs for the tests of controllers: controller-runtime's envtest starts reap from there in the place of etcd, kube-apiserver and kubectl, and the tests get a garbage collector and controllers without a change.`

const envtestExamples = `eval "$(reap envtest use)"
go test ./...`

const useDescription = `Makes a folder with etcd, kube-apiserver and kubectl, which are links to this reap, or copies of it where there are no links, and prints the line that lets envtest use it. Without DIR, the folder is reap/envtest in the user's cache directory. With --bin-dir it is where setup-envtest would put it. A folder that was made before is made anew. Other programs by these names are left alone, and are an error.

A Makefile that calls 'setup-envtest use' can call this with the same VERSION (1.37, 1.37.x, 1.37.x!, 1.37.1, latest …), --bin-dir, -i and -p. This reap has one version of Kubernetes and downloads nothing: another VERSION is an error, and -i changes nothing. A DIR whose name could be a version needs a slash: ./1.37.

Called as etcd, reap is etcd. Called as kube-apiserver, it takes kube-apiserver's flags and runs the collector and the controllers besides. The tests' environment configures these: REAP_DISABLE and the variables of 'reap server' for the collector and the log. REAP_DISABLE=gc,controllers gives what envtest has without reap.`

const useExamples = `eval "$(reap envtest use)"
go test ./...

Without the collector and the controllers:
  REAP_DISABLE=gc,controllers go test ./...

In a Makefile:
  KUBEBUILDER_ASSETS="$(shell reap envtest use 1.37.x --bin-dir bin -p path)" go test ./...`

// The values of --print, as setup-envtest has them.
var printed = []string{"overview", "path", "env"}

func envtestCommand() *cli.Command {
	return command(envtestExamples, &cli.Command{
		Name:        "envtest",
		Usage:       "give the tests of controllers a collector, through controller-runtime's envtest",
		UsageText:   "reap envtest use [VERSION|DIR] [flags]",
		Description: envtestDescription,
		Subcommands: []*cli.Command{envtestUseCommand()},
		Action:      showSubcommands,
	})
}

func envtestUseCommand() *cli.Command {
	return command(useExamples, &cli.Command{
		Name:        "use",
		Usage:       "make the folder that KUBEBUILDER_ASSETS names",
		UsageText:   "reap envtest use [VERSION|DIR] [flags]",
		Description: useDescription,
		Flags: []cli.Flag{
			&cli.StringFlag{
				Name: "bin-dir", Category: "Folder",
				Usage: "`DIR` as setup-envtest's: the folder is DIR/k8s/VERSION-OS-ARCH",
			},
			&cli.BoolFlag{
				Name: "installed-only", Aliases: []string{"i"}, Category: "Folder", DisableDefaultText: true,
				Usage: "as setup-envtest's: download nothing, which reap never does",
			},
			&cli.StringFlag{
				Name: "print", Aliases: []string{"p"}, Value: "env", DefaultText: "env", Category: "Output",
				Usage: "`WHAT` overview, path or env, as setup-envtest's: what to print as text; env is a line for the shell",
			},
			outputFlag(),
		},
		Action: func(c *cli.Context) error {
			dir, err := assetsDir(c, kubernetes.Get().GitVersion)
			if err != nil {
				return err
			}
			format, err := checkOutput(c)
			if err != nil {
				return err
			}
			what, err := checkPrinted(c, format)
			if err != nil {
				return err
			}
			f, err := makeAssets(dir)
			if err != nil {
				return failed(err)
			}
			return failed(print(c.App.Writer, format, newAssets(f, what)))
		},
	})
}

// assetsDir returns the folder that the command line asks for, "" for the default one, or what is wrong with the command line.
func assetsDir(c *cli.Context, version string) (string, error) {
	argument, binDir := c.Args().First(), c.String("bin-dir")
	if c.Args().Len() > 1 {
		return "", fmt.Errorf("%s takes one version or folder, and got %q too; see '%[1]s --help'", c.Command.HelpName, c.Args().Get(1))
	}
	if argument != "" && envtest.MeansVersion(argument) {
		matches, err := envtest.Selects(argument, version)
		if err != nil {
			return "", fmt.Errorf("%w; a folder of this name is ./%s", err, argument)
		}
		if !matches {
			return "", fmt.Errorf("this reap is Kubernetes %s, which %q does not select: use setup-envtest for another version, "+
				"or a release of reap that has it", strings.TrimPrefix(version, "v"), argument)
		}
		argument = ""
	}
	switch {
	case binDir == "":
		return argument, nil
	case argument != "":
		return "", fmt.Errorf("--bin-dir and the folder %q are two folders: give one of them; see '%s --help'", argument, c.Command.HelpName)
	}
	return envtest.DirIn(binDir, version)
}

// checkPrinted returns the value of --print, or what is wrong with it.
func checkPrinted(c *cli.Context, format string) (string, error) {
	what := c.String("print")
	switch {
	case !slices.Contains(printed, what):
		text := fmt.Sprintf("--print has to be overview, path or env, not %q", what)
		if n := config.Nearest(what, printed); n != "" {
			text += fmt.Sprintf(" (did you mean %s?)", n)
		}
		return "", fmt.Errorf("%s", text)
	case format != "text" && c.IsSet("print"):
		return "", fmt.Errorf("--print is for text: leave it out with --output %s", format)
	}
	return what, nil
}

func makeAssets(dir string) (envtest.Folder, error) {
	if dir == "" {
		var err error
		if dir, err = envtest.DefaultDir(); err != nil {
			return envtest.Folder{}, fmt.Errorf("finding the user's cache directory: %w: name a folder, 'reap envtest use DIR'", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return envtest.Folder{}, fmt.Errorf("finding reap itself: %w", err)
	}
	f, err := envtest.Make(dir, self)
	if err != nil {
		return envtest.Folder{}, fmt.Errorf("%w: name another folder, 'reap envtest use DIR' or --bin-dir", err)
	}
	return f, nil
}

// assets is what `reap envtest use` prints. Its fields are stable.
type assets struct {
	// Dir is the folder, absolute.
	Dir        string    `json:"dir"`
	Kubernetes string    `json:"kubernetes"`
	Platform   string    `json:"platform"`
	Programs   []program `json:"programs"`

	what string // to print as text
}

// A program of the folder is a link to Binary, or a copy of it.
type program struct {
	Name   string `json:"name"`
	Binary string `json:"binary"`
	Copy   bool   `json:"copy,omitempty"`
}

func newAssets(f envtest.Folder, what string) assets {
	a := assets{
		Dir: f.Dir, Kubernetes: kubernetes.Get().GitVersion, Platform: runtime.GOOS + "/" + runtime.GOARCH, what: what,
	}
	for _, name := range envtest.Programs {
		a.Programs = append(a.Programs, program{Name: name, Binary: f.Binary, Copy: slices.Contains(f.Copied, name)})
	}
	return a
}

// Print writes what setup-envtest would.
func (a assets) Print(out io.Writer) (err error) {
	switch a.what {
	case "path":
		_, err = io.WriteString(out, a.Dir) // without an end of line, as setup-envtest
	case "env":
		// A quote cannot be escaped within quotes: they end, and begin anew after a quoted quote.
		_, err = fmt.Fprintf(out, "export KUBEBUILDER_ASSETS='%s'\n", strings.ReplaceAll(a.Dir, "'", `'"'"'`))
	default:
		_, err = fmt.Fprintf(out, "Version: %s\nOS/Arch: %s\nPath: %s\n", strings.TrimPrefix(a.Kubernetes, "v"), a.Platform, a.Dir)
	}
	return err
}
