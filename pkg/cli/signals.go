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
// when its terminal closes; its cause is then an *interrupted. The signals have their default effects from then on, so that a
// second one kills. If the process was started with SIGHUP ignored, as nohup does, it goes on being ignored.
func UntilSignal() context.Context {
	signals := endSignals
	if signal.Ignored(syscall.SIGHUP) {
		signals = []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	came := make(chan os.Signal, 1)
	signal.Notify(came, signals...)
	go func() {
		s := <-came
		signal.Stop(came)
		cancel(&interrupted{s})
	}()
	return ctx
}

// interrupted is the cause of a context that a signal ended.
type interrupted struct{ signal os.Signal }

func (e *interrupted) Error() string { return e.signal.String() + " signal received" }

// Is makes it a cancellation like any other.
func (e *interrupted) Is(target error) bool { return target == context.Canceled }

// exitCode is what a shell says of a program that the signal kills: 130 for Ctrl-C.
func (e *interrupted) exitCode() int {
	const killed = exitInterrupt - int(syscall.SIGINT)
	if s, ok := e.signal.(syscall.Signal); ok {
		return killed + int(s)
	}
	return exitRun
}
