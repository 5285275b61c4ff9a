// reap is a Kubernetes API server over kine/SQLite with an ownership garbage collector in the same
// process.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/reap-dev/reap/pkg/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// The first signal asks for an orderly end and gives the signals back, so that a second one kills.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Run(ctx, os.Args, os.Stdout, os.Stderr))
}
