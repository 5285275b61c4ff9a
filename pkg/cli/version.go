package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"text/tabwriter"

	"github.com/urfave/cli/v2"
	kubernetes "k8s.io/component-base/version"
)

// What was built, set by scripts/build with -ldflags "-X github.com/reap-dev/reap/pkg/cli.Version=…".
var (
	Version = "dev"
	Commit  = "unknown"
	Date    = "unknown"
)

const versionExamples = `reap version
reap version -o json`

func versionCommand() *cli.Command {
	return command(versionExamples, &cli.Command{
		Name:        "version",
		Usage:       "print the version",
		UsageText:   "reap version [flags]",
		Description: "Prints the version of reap, and of what it is made from. It asks no server.",
		Flags:       []cli.Flag{outputFlag()},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			format, err := checkOutput(c)
			if err != nil {
				return err
			}
			return failed(print(c.App.Writer, format, thisBuild()))
		},
	})
}

// version is the line of --version.
func version() string {
	return fmt.Sprintf("%s (commit %s, built %s)", Version, Commit, Date)
}

// build is what `reap version` shows. Its fields are stable.
type build struct {
	Version    string `json:"version"`
	Commit     string `json:"commit"`
	Built      string `json:"built"`
	Kubernetes string `json:"kubernetes"`
	Kine       string `json:"kine"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
}

func thisBuild() build {
	return build{
		Version: Version, Commit: Commit, Built: Date, Kubernetes: kubernetes.Get().GitVersion,
		Kine: moduleVersion("github.com/k3s-io/kine"), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// moduleVersion returns the version of a module that the program is built from.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return m.Version
		}
	}
	return "unknown"
}

// Print writes it for people.
func (b build) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "reap\t%s\n", b.Version)
	fmt.Fprintf(w, "commit\t%s\n", b.Commit)
	fmt.Fprintf(w, "built\t%s\n", b.Built)
	fmt.Fprintf(w, "kubernetes\t%s\n", b.Kubernetes)
	fmt.Fprintf(w, "kine\t%s\n", b.Kine)
	fmt.Fprintf(w, "go\t%s %s\n", b.Go, b.Platform)
	return w.Flush()
}
