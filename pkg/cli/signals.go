package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// endSignals ask the process to end in order.
var endSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}

// UntilSignal returns a context that ends when the process is asked to end: by SIGTERM, by SIGINT, or by SIGHUP,
// when its terminal closes. The signals have their default effects from then on, so that a second one kills. If the
// process was started with SIGHUP ignored, as nohup does, it goes on being ignored.
func UntilSignal() context.Context {
	signals := endSignals
	if signal.Ignored(syscall.SIGHUP) {
		signals = []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	return ctx
}
