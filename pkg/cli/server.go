package cli

import (
	"errors"
	"io"

	"github.com/sirupsen/logrus"
	"github.com/urfave/cli/v2"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore/outage"
	"github.com/reap-dev/reap/pkg/server"
	"github.com/reap-dev/reap/pkg/service"
)

const serverDescription = `Starts the datastore, the API server and the garbage collector, in this order, and runs until SIGTERM, SIGINT or SIGHUP, which stop them in reverse order. A second signal kills the process at once. Under nohup, closing the terminal stops nothing.

Every flag is also an environment variable, REAP_ and its name in capitals (REAP_DATA_DIR), and a key of the YAML file that --config names (data-dir: /srv/reap). A flag wins over the environment, the environment over the file, and the file over the default.

Objects are kept in SQLite, or with --datastore-endpoint=etcd in an etcd within this process; 'reap db convert' moves them from one to the other. When one machine is not enough, make the store a cluster of etcd with etcd's own tools: stop the server, 'reap db export --format etcd store.db', then for each member 'etcdutl snapshot restore store.db --data-dir DIR --bump-revision 1000000000 --mark-compacted' with its --name, its --initial-advertise-peer-urls and the --initial-cluster of all, start the members with these, and each server with --datastore-endpoint and the members' addresses.`

const serverExamples = `Run on this machine, and talk to it:
  reap server --data-dir ~/reap
  reap kubectl --kubeconfig ~/reap/admin.kubeconfig get namespaces

Throw-away server for a test, on a free port:
  reap server --data-dir "$(mktemp -d)" --https-listen-port 0

Reachable from other machines, by a name of its own:
  reap server --bind-address 0.0.0.0 --tls-san edge-1.example.com

Without the collector; objects whose owners disappear meanwhile are collected once it runs again:
  reap server --disable gc

An option of kube-apiserver itself:
  reap server --kube-apiserver-arg event-ttl=24h`

func serverCommand(stderr io.Writer, serve runServer) *cli.Command {
	flags, load := config.ServerFlags()
	return command(serverExamples, &cli.Command{
		Name:        "server",
		Usage:       "run the API server with the garbage collector in it",
		UsageText:   "reap server [flags]",
		Description: serverDescription,
		Flags:       flags,
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			options, err := load()
			if err != nil {
				return err
			}
			down := outage.New()
			if err := configureLogging(options.Log, stderr, down); err != nil {
				return err
			}
			options.Version = Version
			err = serve(c.Context, options, down)
			if usage := (config.UsageError{}); errors.As(err, &usage) {
				return usage
			}
			if err != nil {
				return &runError{err: err, print: printer(options.Log, err)}
			}
			return nil
		},
	})
}

// checkServer returns the error with which `reap server` would end at its start if a service started it, as far as that can be found
// before anything is changed.
func checkServer(s service.Server) error {
	options, err := resolveServer(s)
	if err != nil {
		return err
	}
	if err := server.Preflight(options, s.Root); err != nil || !s.Starts {
		return err
	}
	return server.PreflightPort(options, s.Running)
}

// serverDigests returns a digest of each setting that a server would have if a service started it.
func serverDigests(s service.Server) (map[string]string, error) {
	options, err := resolveServer(s)
	return options.Digests(), err
}

// resolveServer returns the options of a server that a service starts, perhaps below another root.
func resolveServer(s service.Server) (options config.Server, err error) {
	flags, load := config.ServerFlagsElsewhere(s.Environment, s.Root)
	err = errors.New("these arguments ask for help, and start no server")
	server := command("", &cli.Command{Name: "server", Flags: flags, Action: func(c *cli.Context) error {
		if err = noArguments(c); err == nil {
			options, err = load()
		}
		return err
	}})
	app := &cli.App{Name: "reap", Commands: []*cli.Command{server}, Writer: io.Discard, ErrWriter: io.Discard, ExitErrHandler: func(*cli.Context, error) {}}
	if parseErr := app.Run(flagsFirst(app.Commands, append([]string{"reap", "server"}, s.Arguments...))); parseErr != nil {
		return options, parseErr
	}
	return options, err
}

// printer prints an error as the plain line that a terminal wants, or as a record of the log where the
// log is JSON, so that nothing in it is anything else.
func printer(log config.Log, err error) func(io.Writer) {
	return func(stderr io.Writer) {
		if log.Format == "json" {
			logrus.Error(oneLine(err))
			return
		}
		printError(stderr, err)
	}
}
