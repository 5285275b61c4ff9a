package cli

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/bombsimon/logrusr/v4"
	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	"k8s.io/klog/v2"

	"github.com/reap-dev/reap/pkg/config"
)

// configureLogging sets up the process's one log: logrus' standard logger, which kine writes to as
// well, with klog, which everything of Kubernetes writes to, led into it. Call it before anything that
// logs is started: neither library guards these settings.
func configureLogging(options config.Log, out io.Writer) error {
	level, err := logrus.ParseLevel(options.Level)
	if err != nil {
		return fmt.Errorf("setting the log level: %w", err)
	}
	logrus.SetOutput(out)
	logrus.SetLevel(level)
	var format logrus.Formatter = &logrus.TextFormatter{FullTimestamp: true}
	if options.Format == "json" {
		format = &logrus.JSONFormatter{}
	}
	logrus.SetFormatter(kineFormatter{format, level})
	return routeKlog(level, klogLogger(out, level))
}

// klogVerbosity is how much of Kubernetes' V-levels each of reap's shows.
//
// kube-apiserver says much that only its developers read: a hundred lines at each start, forty of them
// warnings about API versions that have no resources, and a few errors that it mends by itself a second
// later. So whatever klog calls information or a warning is at most debug here, and its errors are
// warnings: at reap's own info level a start prints a handful of reap's lines, and an error is reap's.
func klogVerbosity(level logrus.Level) int {
	switch level {
	case logrus.TraceLevel:
		return 6
	case logrus.DebugLevel:
		return 2
	default:
		return 0
	}
}

// klogLogger returns what klog is led into: the same place and format as reap's own log, with errors
// turned into warnings, which a level of error leaves out.
func klogLogger(out io.Writer, level logrus.Level) *logrus.Logger {
	l := logrus.New()
	l.SetOutput(out)
	l.SetFormatter(logrus.StandardLogger().Formatter)
	l.SetLevel(level)
	if level < logrus.WarnLevel {
		l.SetLevel(logrus.PanicLevel)
	}
	l.AddHook(errorIsWarning{})
	return l
}

// errorIsWarning is a logrus hook; hooks see a record before it is written.
type errorIsWarning struct{}

func (errorIsWarning) Levels() []logrus.Level { return []logrus.Level{logrus.ErrorLevel} }

func (errorIsWarning) Fire(e *logrus.Entry) error {
	e.Level = logrus.WarnLevel
	return nil
}

// debugVerbosity is the highest V-level that is logged as debug; what is above is trace.
const debugVerbosity = 2

// routeKlog leads both of klog's APIs into logrus. Structured and contextual calls go through a logr
// sink and keep their fields. logr has no warnings: the unstructured calls, the only ones in klog that
// have, are taken as klog's own lines, whose first letter is the severity.
func routeKlog(level logrus.Level, to *logrus.Logger) error {
	verbosity := klogVerbosity(level)
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Set("v", strconv.Itoa(verbosity)); err != nil {
		return fmt.Errorf("setting klog's verbosity: %w", err)
	}
	sink := logrusr.New(to, logrusr.WithFormatter(formatField)).GetSink()
	klog.SetLoggerWithOptions(
		logr.New(klogSink{LogSink: sink, verbosity: verbosity}),
		klog.ContextualLogger(true),
		klog.WriteKlogBuffer(func(line []byte) { writeKlogLine(to, line) }),
	)
	return nil
}

// writeKlogLine logs one line as klog writes it itself:
//
//	W1121 03:02:28.000000    1234 file.go:56] message
//
// klog calls it under its own lock, so it must not log through klog.
func writeKlogLine(to *logrus.Logger, line []byte) {
	level := logrus.DebugLevel
	if len(line) > 0 {
		switch line[0] {
		case 'E', 'F': // klog itself ends the process after a fatal one
			level = logrus.ErrorLevel
		}
	}
	if !to.IsLevelEnabled(level) {
		return
	}
	message := line
	if _, after, found := bytes.Cut(line, []byte("] ")); found {
		message = after
	}
	to.Log(level, string(bytes.TrimSpace(message)))
}

// klogSink maps V-levels as klogVerbosity describes. klog has checked the level for its own calls, but
// a logger from a context comes here directly.
type klogSink struct {
	logr.LogSink
	verbosity int
}

// logrusr takes level 0 for logrus' info, and each one more for the next finer level.
const (
	logrusrDebug = 1
	logrusrTrace = 2
)

func logrusrLevel(v int) int {
	if v <= debugVerbosity {
		return logrusrDebug
	}
	return logrusrTrace
}

func (s klogSink) Enabled(v int) bool {
	return v <= s.verbosity && s.LogSink.Enabled(logrusrLevel(v))
}

func (s klogSink) Info(v int, message string, keysAndValues ...any) {
	s.LogSink.Info(logrusrLevel(v), message, keysAndValues...)
}

// passing are in errors of Kubernetes that are no warning, since who logs them looks again at once. Their
// types are lost on the way here.
var passing = []string{
	" is not as new as written version: ", // a controller's cache does not show yet what it wrote itself
	// A certificate's two files are replaced one right after the other. If they never fit, reap says so.
	"key failed with : tls: private key does not match public key",
}

func (s klogSink) Error(err error, message string, keysAndValues ...any) {
	if err != nil && slices.ContainsFunc(passing, func(text string) bool { return strings.Contains(err.Error(), text) }) {
		if s.Enabled(1) {
			s.LogSink.Info(logrusrDebug, message, append(keysAndValues, "error", err)...)
		}
		return
	}
	s.LogSink.Error(err, message, keysAndValues...)
}

func (s klogSink) WithValues(keysAndValues ...any) logr.LogSink {
	return klogSink{s.LogSink.WithValues(keysAndValues...), s.verbosity}
}

func (s klogSink) WithName(name string) logr.LogSink {
	return klogSink{s.LogSink.WithName(name), s.verbosity}
}

// formatField writes a field's value as klog does, by its own String where it has one: durations,
// objects' names, and times are unreadable as JSON.
func formatField(value any) any {
	return fmt.Sprintf("%+v", value)
}
