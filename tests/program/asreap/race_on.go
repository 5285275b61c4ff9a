//go:build race

package asreap

import (
	"os"

	"github.com/reap-dev/reap/pkg/cli"
	"github.com/reap-dev/reap/tests/program"
)

// Main runs reap and exits, as main.go does, in a process that a test has started as reap. Else it returns.
func Main() {
	if program.IsReap() {
		os.Exit(cli.Run(cli.UntilSignal(), os.Args, os.Stdout, os.Stderr))
	}
}
