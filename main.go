// reap is a Kubernetes API server over kine/SQLite with an ownership garbage collector in the same
// process.
package main

import (
	"os"

	"github.com/reap-dev/reap/pkg/cli"
)

func main() {
	os.Exit(cli.Run(cli.UntilSignal(), os.Args, os.Stdout, os.Stderr))
}
