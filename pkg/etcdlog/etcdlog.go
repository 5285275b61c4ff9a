// Package etcdlog leads what etcd's clients log into logrus.
//
// kube-apiserver makes the logger of its etcd clients while its packages are initialised, from etcd's default
// configuration, and has no setting for it. So this package changes that configuration while it is itself initialised.
// It comes first, because Go initialises packages in the order of their import paths, each as soon as its imports are
// initialised: github.com/… is before go.etcd.io/… and k8s.io/…. Therefore it must not import either, except for the
// package that holds the configuration. TestEtcdClientsLogAsEverythingElse, in pkg/cli, holds that.
package etcdlog

import (
	"bytes"
	"encoding/json"
	"net/url"
	"sync/atomic"

	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Component is the component of the records, in the field "component".
const Component = "etcd-client"

// scheme is how the configuration names the destination of the log.
const scheme = "logrus"

func init() {
	if err := zap.RegisterSink(scheme, func(*url.URL) (zap.Sink, error) { return sink{}, nil }); err != nil {
		panic(err) // the name is taken, in every process
	}
	logutil.DefaultZapLoggerConfig.OutputPaths = []string{scheme + ":" + Component}
}

var to atomic.Pointer[logrus.Logger]

// SendTo sets where the records go; until then that is logrus' standard logger. Errors keep their level; everything
// else is debug, because the clients retry and warn of each attempt.
func SendTo(l *logrus.Logger) { to.Store(l) }

// sink takes zap's lines, which are JSON.
type sink struct{}

func (sink) Write(line []byte) (int, error) {
	l := to.Load()
	if l == nil {
		l = logrus.StandardLogger()
	}
	var fields logrus.Fields
	if err := json.Unmarshal(line, &fields); err != nil {
		l.WithField("component", Component).Debug(string(bytes.TrimSpace(line)))
		return len(line), nil
	}
	level := logrus.DebugLevel
	if name, _ := fields["level"].(string); isError(name) {
		level = logrus.ErrorLevel
	}
	message, _ := fields["msg"].(string)
	for _, of := range []string{"level", "msg", "ts", "logger", "caller", "stacktrace"} { // of the line, not of what happened
		delete(fields, of)
	}
	fields["component"] = Component
	l.WithFields(fields).Log(level, message)
	return len(line), nil
}

func isError(level string) bool {
	l, err := zapcore.ParseLevel(level)
	return err == nil && l >= zapcore.ErrorLevel
}

func (sink) Sync() error  { return nil }
func (sink) Close() error { return nil }
