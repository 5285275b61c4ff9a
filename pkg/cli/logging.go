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
	"github.com/reap-dev/reap/pkg/datastore/outage"
	"github.com/reap-dev/reap/pkg/escape"
	"github.com/reap-dev/reap/pkg/etcdlog"
)

// configureLogging sets up the process's one log: logrus' standard logger, which kine writes to as
// well. The logs of Kubernetes (klog) and of etcd's clients (zap) are led into it. Call it before
// anything that logs is started: the libraries do not guard these settings.
//
// While the datastore is down, warnings are debug: everything fails then, and warns.
func configureLogging(options config.Log, out io.Writer, down *outage.Outage) error {
	level, err := logrus.ParseLevel(options.Level)
	if err != nil {
		return fmt.Errorf("setting the log level: %w", err)
	}
	logrus.SetOutput(out)
	logrus.SetLevel(level)
	logrus.SetReportCaller(true) // tells kine's records from ours
	logrus.SetFormatter(componentFormatter{formatter(options.Format, out), level, out, down})
	others := othersLogger(out, level)
	etcdlog.SendTo(others)
	return routeKlog(level, others)
}

// formatter returns what writes records: text is for people on a terminal, and logfmt elsewhere.
func formatter(format string, out io.Writer) logrus.Formatter {
	if format == "json" {
		return jsonFormatter{}
	}
	if format == "text" {
		if f := newTerminalFormatter(out); f != nil {
			return f
		}
	}
	return &logrus.TextFormatter{DisableColors: true, FullTimestamp: true}
}

// jsonFormatter writes records as JSON that a terminal does not act on.
type jsonFormatter struct{ logrus.JSONFormatter }

func (f jsonFormatter) Format(e *logrus.Entry) ([]byte, error) {
	raw, err := f.JSONFormatter.Format(e)
	return escape.JSON(raw), err
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

// othersLogger returns what the logs of other libraries are led into: the same place and format as
// reap's own log, with errors turned into warnings, which a level of error leaves out.
func othersLogger(out io.Writer, level logrus.Level) *logrus.Logger {
	l := logrus.New()
	l.SetOutput(out)
	l.SetFormatter(logrus.StandardLogger().Formatter)
	l.SetLevel(level)
	if level < logrus.WarnLevel {
		l.SetLevel(logrus.FatalLevel)
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

// kubernetesComponent is the component of whatever klog logs.
const kubernetesComponent = "kubernetes"

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
	sink := logrusr.New(to.WithField(componentField, kubernetesComponent), logrusr.WithFormatter(formatField)).GetSink()
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
	message := line
	if _, after, found := bytes.Cut(line, []byte("] ")); found {
		message = after
	}
	text := string(bytes.TrimSpace(message))
	level := logrus.DebugLevel
	switch {
	case len(line) == 0:
	case line[0] == 'F': // klog itself ends the process afterwards
		level = logrus.FatalLevel
	case line[0] == 'E' && !isPassing(text):
		level = logrus.ErrorLevel
	}
	if to.IsLevelEnabled(level) {
		to.WithField(componentField, kubernetesComponent).Log(level, text)
	}
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

// passing are in errors of Kubernetes that are no warning. Their types are lost on the way here.
var passing = []string{
	// At a start: there is no manifest of metrics, no other server's endpoints to keep, and no namespace kube-system yet,
	// which is tried again.
	"The manifest file is empty, ignoring.",
	"Found stale data, removed previous endpoints on kubernetes service",
	`Error while syncing ConfigMap: namespaces "kube-system" not found`,
	// The controllers start again in the same process, after it has lost its lease: their metrics are there and go on.
	"unable to register metrics: duplicate metrics collector registration attempted",
	// The server stops: what was under way is cut off.
	" signal received",
	// Who logs these looks again at once.
	" is not as new as written version: ", // a controller's cache does not show yet what it wrote itself
	// A certificate's two files are replaced one right after the other. If they never fit, reap says so.
	"key failed with : tls: private key does not match public key",
}

func isPassing(text string) bool {
	return slices.ContainsFunc(passing, func(part string) bool { return strings.Contains(text, part) })
}

func (s klogSink) Error(err error, message string, keysAndValues ...any) {
	if err != nil && isPassing(message+": "+err.Error()) {
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
