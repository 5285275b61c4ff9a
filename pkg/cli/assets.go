package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"go.etcd.io/etcd/server/v3/storage/wal"

	"github.com/reap-dev/reap/pkg/apiserver"
	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore/outage"
	"github.com/reap-dev/reap/pkg/server"
)

// The names by which envtest starts reap, besides kubectl's.
const (
	etcdName          = "etcd"
	kubeAPIServerName = "kube-apiserver"
)

// etcdLogSize is how large etcd makes a file of its log at once. etcd's own 64 MB are for servers that run for years: a
// test's has a few megabytes, perhaps in memory, and there may be ten of them.
const etcdLogSize = 4 << 20

// runEtcd makes the process etcd, which prints its errors itself and ends the process.
func runEtcd(args []string) {
	// etcd handles signals itself.
	signal.Reset(endSignals...)
	// pkg/etcdlog has led this away, for etcd's clients.
	logutil.DefaultZapLoggerConfig.OutputPaths = []string{"stderr"}
	wal.SegmentSizeBytes = etcdLogSize
	go server.KeepSmall(context.Background()) // until the process ends
	etcdmain.Main(append([]string{etcdName}, withQuickElection(args, os.Environ())...))
}

// withQuickElection has etcd elect itself within two tenths of a second after its start, instead of up to one second,
// unless somebody has said how long elections take. It has no other members to wait for.
func withQuickElection(args, environ []string) []string {
	said := func(text string) bool {
		return slices.ContainsFunc([]string{"heartbeat-interval", "election-timeout", "config-file"}, func(name string) bool {
			variable := "ETCD_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "="
			return strings.HasPrefix(strings.TrimLeft(text, "-"), name) || strings.HasPrefix(text, variable)
		})
	}
	if len(args) == 0 || !strings.HasPrefix(args[0], "-") || slices.ContainsFunc(slices.Concat(args, environ), said) {
		return args // also for etcd's other commands
	}
	return append([]string{"--heartbeat-interval=50", "--election-timeout=250"}, args...)
}

// runKubeAPIServer runs what kube-apiserver's command line asks for, and returns the exit code.
func runKubeAPIServer(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	line, err := apiserver.ParseCommandLine(args)
	switch {
	case errors.Is(err, apiserver.ErrHelp):
		err = apiserver.PrintHelp(stdout)
	case errors.Is(err, apiserver.ErrVersion):
		err = apiserver.PrintVersion(stdout)
	case err == nil:
		return serveAsKubeAPIServer(ctx, line, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %s\n", kubeAPIServerName, oneLine(err))
		return exitUsage
	}
	return exitOK
}

func serveAsKubeAPIServer(ctx context.Context, line *apiserver.CommandLine, stderr io.Writer) int {
	options, err := config.ServerFromEnvironment()
	if err == nil {
		options.Log = logAsAsked(options.Log, line)
		err = configureLogging(options.Log, stderr, outage.New())
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %s\n", kubeAPIServerName, oneLine(err))
		return exitUsage
	}
	options.Version = Version
	if err := server.RunKubeAPIServer(ctx, options, line); err != nil {
		printer(options.Log, err)(stderr)
		return exitRun
	}
	return exitOK
}

// logAsAsked adds what kube-apiserver's command line says about the log to what the environment does: --v can only show
// more, and a format of the environment wins.
func logAsAsked(log config.Log, line *apiserver.CommandLine) config.Log {
	if line.JSONLog() && log.Format == config.DefaultServer().Log.Format {
		log.Format = "json"
	}
	switch v := line.Verbosity(); {
	case v > debugVerbosity:
		log.Level = "trace"
	case v > 0 && log.Level != "trace":
		log.Level = "debug"
	}
	return log
}
