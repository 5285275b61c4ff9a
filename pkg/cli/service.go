package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/service"
)

const serviceDescription = `install makes this program a service of systemd or OpenRC, uninstall removes the service, and status shows how it is. The script install.sh, which downloads and upgrades the program, uses them.`

const serviceExamples = `reap service install
reap service status
reap service uninstall`

const installServiceDescription = `Writes the definition of the service and its environment file, links kubectl to the program where there is none, writes reap-uninstall.sh beside the program, and enables and starts the service. It returns when the server is ready. A running service is restarted only if something has changed: the program, the arguments, the environment file, or a setting in the configuration files.

ARGUMENTS are those of reap server. Without any, an installed service keeps the ones it has; the word server alone goes back to none. REAP_ variables in the environment go into the environment file /etc/reap/reap.env, or /etc/reap/reap-NAME.env, where the others stay as they are.

All settings are checked before anything is changed, also whether the data directory can be used with them and the port is free. If the server does not become ready all the same, a service that worked gets its arguments and environment file back and is started with them, and the error holds the server's own.

A second service, with --name, has a data directory of its own, /var/lib/reap-NAME, and listens on the first port after 6443 that no other service of reap's names. It reads no configuration file unless --config names one. Its arguments may say otherwise.

Without systemd and OpenRC, only the links and reap-uninstall.sh are written.`

const installServiceExamples = `reap service install
reap service install -- --disable=gc --tls-san edge-1.example.com
reap service install --dry-run
REAP_LOG_LEVEL=debug reap service install --name bench
reap service install --name bench -- --config=/etc/reap/bench.yaml --https-listen-port=7443`

const uninstallServiceDescription = `Stops the service and removes what its installation wrote: the definition, the environment file, the links and, with the last service, the program. Data stays unless --purge is given; at a terminal it asks.

--purge removes no data directory in which something is mounted. It removes a data directory that is not the service's own, such as /srv, only if it holds nothing but reap's data, and neither snapshots nor older stores. All of this is checked before anything is removed.

The script reap-uninstall.sh beside the program does the same.`

const uninstallServiceExamples = `reap service uninstall
reap service uninstall --purge
reap service uninstall --name bench`

const serviceStatusDescription = `Shows whether the service is installed, starts with the machine, runs and is ready, whether a change waits for a restart, and where its files are. It changes nothing. Root also sees which settings have other values since the server was started, in the environment file or the configuration files, and why the server would not start with them.

Exit code 1: it is not installed, does not run or is not ready.`

const serviceStatusExamples = `reap service status
reap service status --name bench -o json`

// readyWithin is how long a server may take under OpenRC: a device's card may be slow, and a database large.
const readyWithin = 5 * time.Minute

func serviceCommand() *cli.Command {
	return command(serviceExamples, &cli.Command{
		Name:        "service",
		Usage:       "install reap as a service of this machine, or remove it",
		UsageText:   "reap service install|uninstall|status [flags]",
		Description: serviceDescription,
		Subcommands: []*cli.Command{installServiceCommand(), uninstallServiceCommand(), serviceStatusCommand()},
		Action:      showSubcommands,
	})
}

// serviceFlags say which service is meant.
func serviceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "name", Category: "Service", Usage: "`NAME` a second service beside the first: reap-NAME", DefaultText: "reap"},
		&cli.StringFlag{Name: "bin-dir", Category: "Service", Usage: "`DIR` directory of the program, called reap", DefaultText: "that of this program"},
		&cli.StringFlag{Name: "root", Category: "Service", Usage: "`DIR` put before every path, for an image that is being built"},
	}
}

func installFlag(name, usage string) *cli.BoolFlag {
	return &cli.BoolFlag{Name: name, Category: "Installation", Usage: usage, DisableDefaultText: true}
}

func installServiceCommand() *cli.Command {
	return command(installServiceExamples, &cli.Command{
		Name:        "install",
		Usage:       "make reap a service, or say that nothing changed",
		UsageText:   "reap service install [flags] [-- ARGUMENTS]",
		Description: installServiceDescription,
		Flags: append(serviceFlags(),
			&cli.StringFlag{
				Name: "systemd-dir", Category: "Installation",
				Usage: "`DIR` directory of the systemd unit, one that systemd reads (default: where it is already, or /etc/systemd/system)",
			},
			installFlag("skip-links", "make no links to the program"),
			installFlag("skip-enable", "neither enable nor start the service"),
			installFlag("skip-start", "do not start or restart the service"),
			&cli.DurationFlag{
				Name: "wait", Category: "Installation", Value: readyWithin, DefaultText: "5m",
				Usage: "`DURATION` how long the server may take to become ready under OpenRC; a systemd unit has its own limit",
			},
			&cli.StringFlag{
				Name: "sha256", Category: "Installation", Usage: "`HEX` checksum of the program, for a script that knows it", DefaultText: "read from the program",
			},
			installFlag("bin-dir-made", "remove the program's directory with the service, if it is empty then"),
			installFlag("dry-run", "check the settings and show what would be written"),
		),
		Action: func(c *cli.Context) error {
			s, err := serviceSettings(c)
			if err != nil {
				return err
			}
			if s.User != 0 && !c.IsSet("bin-dir") {
				return errors.New("a service needs root: run this with sudo; or, for the program and its links alone, name its directory with --bin-dir")
			}
			s.SystemdDir = c.String("systemd-dir")
			if c.IsSet("systemd-dir") && s.SystemdDir == "" {
				return errors.New("--systemd-dir needs a directory")
			}
			if c.Duration("wait") <= 0 {
				return fmt.Errorf("--wait: %s is no time to become ready in: give a duration such as 5m", c.Duration("wait"))
			}
			hash := c.String("sha256")
			if hash != "" && (len(hash) != 64 || strings.Trim(hash, "0123456789abcdef") != "") {
				return fmt.Errorf("--sha256 %q is no SHA-256: leave it out, and the program is read", hash)
			}
			i, err := service.Plan(c.Context, s, service.Install{
				Arguments: c.Args().Slice(), Environment: config.ServerVariables(os.Environ()), Path: os.Getenv("PATH"), Check: checkServer,
				DefaultDataDir: config.DefaultServer().DataDir, Hash: hash, BinDirMade: c.Bool("bin-dir-made"), SkipLinks: c.Bool("skip-links"),
				SkipEnable: c.Bool("skip-enable"), SkipStart: c.Bool("skip-start"), Wait: c.Duration("wait"),
			})
			if err != nil {
				return fmt.Errorf("%w; nothing was changed", err)
			}
			if c.Bool("dry-run") {
				return failed(i.DryRun())
			}
			return failed(i.Apply(c.Context))
		},
	})
}

func uninstallServiceCommand() *cli.Command {
	return command(uninstallServiceExamples, &cli.Command{
		Name:        "uninstall",
		Usage:       "remove the service, and its data if asked for",
		UsageText:   "reap service uninstall [flags]",
		Description: uninstallServiceDescription,
		Flags: append(serviceFlags(), &cli.BoolFlag{
			Name: "purge", Category: "Data", Usage: "remove the data too", DisableDefaultText: true,
		}),
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			s, err := serviceSettings(c)
			if err != nil {
				return err
			}
			u, err := service.PlanUninstall(s)
			if err != nil {
				return failed(err)
			}
			purge := c.Bool("purge")
			if !purge && u.Data() != "" && terminal(os.Stdin) != nil {
				if purge, err = ask(c, fmt.Sprintf("[reap] delete the data in %s too?", u.Data())); err != nil {
					return failed(fmt.Errorf("%w; nothing was removed", err))
				}
			}
			return failed(u.Apply(c.Context, purge))
		},
	})
}

func serviceStatusCommand() *cli.Command {
	return command(serviceStatusExamples, &cli.Command{
		Name:        "status",
		Usage:       "show how the service is, and fail if it is not ready",
		UsageText:   "reap service status [flags]",
		Description: serviceStatusDescription,
		Flags:       append(serviceFlags(), outputFlag()),
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			format, err := checkOutput(c)
			if err != nil {
				return err
			}
			s, err := serviceSettings(c)
			if err != nil {
				return err
			}
			status, err := service.ReadStatus(c.Context, s)
			if err != nil {
				return failed(err)
			}
			if err := print(c.App.Writer, format, status); err != nil {
				return failed(err)
			}
			return failed(status.Verdict())
		},
	})
}

// serviceSettings are what the flags of all three commands say.
func serviceSettings(c *cli.Context) (service.Settings, error) {
	s := service.Settings{
		Name: c.String("name"), Root: c.String("root"), BinDir: c.String("bin-dir"), User: os.Geteuid(),
		Digests: serverDigests, Out: c.App.Writer, Stdout: c.App.Writer, Stderr: c.App.ErrWriter,
	}
	if s.BinDir != "" {
		return s, nil
	}
	path, err := os.Executable()
	if err != nil {
		return s, fmt.Errorf("finding this program: %w: name its directory with --bin-dir", err)
	}
	if s.BinDir, err = filepath.EvalSymlinks(filepath.Dir(path)); err != nil {
		return s, fmt.Errorf("finding this program: %w: name its directory with --bin-dir", err)
	}
	return s, nil
}
