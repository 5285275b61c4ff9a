package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/urfave/cli/v2"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore/outage"
	"github.com/reap-dev/reap/pkg/escape"
	"github.com/reap-dev/reap/pkg/server"
	"github.com/reap-dev/reap/pkg/snapshot"
)

const snapshotDescription = `save makes a snapshot of a running server, list shows those of a folder, prune removes old ones, and restore makes a server's data directory from one.

A snapshot holds all objects at one revision, and the keys and certificates of the server unless --without-pki leaves them out. Who has it can read every secret: its file is its owner's alone. reap server --snapshot-interval makes snapshots by itself.`

const snapshotExamples = `reap snapshot save
reap snapshot list --check
reap snapshot restore reap-00042-20261122T120000Z.snapshot`

const saveDescription = `Asks the running server for a snapshot and writes it into a new file of the folder, or to standard output if that is named -. Users and the collector go on working meanwhile.

The folder is snapshots in the data directory of this machine's server unless one is named. The command checks the snapshot before it gives the file its name.

The caller needs the right to POST to the non-resource URL ` + snapshot.Path + `, which administrators have; a ClusterRole gives it to others.`

const saveExamples = `reap snapshot save
reap snapshot save /mnt/backup
reap snapshot save --without-pki - | ssh backup 'cat > edge-1.snapshot'`

const listDescription = `Shows the snapshots of a folder, the newest last: when each was made, at which revision, how many keys it holds and whether the keys and certificates are in it. With --check it reads all of each and says which are damaged.

Exit code 1: one of them cannot be used.`

const listExamples = `reap snapshot list
reap snapshot list /mnt/backup --check -o json`

const pruneDescription = `Removes all but the newest snapshots of a folder. Only files that have the names which reap gives are counted and removed. The number in the name says which snapshot is newer, since clocks may go back.`

const pruneExamples = `reap snapshot prune --retain 3 --dry-run
reap snapshot prune /mnt/backup --retain 7 --yes`

const restoreDescription = `Makes the datastore of a data directory from a snapshot, or from standard input if the file is -, and puts the snapshot's keys and certificates into their place. No server may run on the data directory.

A snapshot of any datastore can be restored as SQLite or, with --engine etcd, as an etcd in the data directory: start the server with --datastore-endpoint=etcd then.

All of the snapshot is read and checked before anything is changed. The old database, keys and certificates are kept, under names that are shown.

The restored store continues at a later revision than any before, so that every client lists everything anew. The first start holds the collector and the controllers that delete (namespace, podgc, job, cronjob, ttl-after-finished, endpoints, resourceclaim, csrcleaner, serviceaccount-token): see with 'reap lint -A' what would be collected, then run 'reap resume'. reap server --gc-after-restore=run does not wait.`

const restoreExamples = `systemctl stop reap
reap snapshot restore /var/lib/reap/snapshots/reap-00042-20261122T120000Z.snapshot
systemctl start reap
reap lint -A
reap resume`

func snapshotCommand() *cli.Command {
	return command(snapshotExamples, &cli.Command{
		Name:        "snapshot",
		Usage:       "save, list, restore or remove snapshots of a server",
		UsageText:   "reap snapshot save|list|restore|prune [flags]",
		Description: snapshotDescription,
		Subcommands: []*cli.Command{saveSnapshotCommand(), listSnapshotsCommand(), restoreSnapshotCommand(), pruneSnapshotsCommand()},
		Action:      showSubcommands,
	})
}

func withoutPKIFlag(usage string) *cli.BoolFlag {
	return &cli.BoolFlag{Name: "without-pki", Category: "Snapshot", Usage: usage, DisableDefaultText: true}
}

func saveSnapshotCommand() *cli.Command {
	flags, client := config.ClientFlags()
	return command(saveExamples, &cli.Command{
		Name:        "save",
		Usage:       "make a snapshot of the running server",
		UsageText:   "reap snapshot save [DIR|-] [flags]",
		Description: saveDescription,
		Flags:       append(flags, outputFlag(), withoutPKIFlag("leave keys and certificates out")),
		Action: func(c *cli.Context) error {
			format, err := checkOutput(c)
			if err != nil {
				return err
			}
			toStdout := c.Args().First() == "-"
			if toStdout && terminal(c.App.Writer) != nil {
				return errors.New("a snapshot is nothing for a terminal: redirect standard output, or name a folder")
			}
			dir := ""
			if !toStdout {
				if dir, err = snapshotDir(c, client.DataDir); err != nil {
					return err
				}
			} else if c.Args().Len() > 1 {
				return tooMany(c)
			}
			server, err := connect(client)
			if err != nil {
				return err
			}
			bar := newKeyBar(c.App.ErrWriter, "saving")
			defer bar.done()
			write := func(out io.Writer) (snapshot.Manifest, error) {
				return server.snapshot(c.Context, out, !c.Bool("without-pki"), bar.show)
			}
			if toStdout {
				_, err := write(c.App.Writer)
				return failed(err)
			}
			saved, err := snapshot.Save(dir, write)
			if err != nil {
				return failed(err)
			}
			bar.done()
			return failed(print(c.App.Writer, format, savedSnapshot{saved}))
		},
	})
}

func listSnapshotsCommand() *cli.Command {
	flags, find := config.DataDirFlags()
	return command(listExamples, &cli.Command{
		Name:        "list",
		Usage:       "show the snapshots of a folder",
		UsageText:   "reap snapshot list [DIR] [flags]",
		Description: listDescription,
		Flags: append(flags, outputFlag(), &cli.BoolFlag{
			Name: "check", Category: "Snapshot", Usage: "read all of each and say which are damaged", DisableDefaultText: true,
		}),
		Action: func(c *cli.Context) error {
			format, err := checkOutput(c)
			if err != nil {
				return err
			}
			dir, err := snapshotDir(c, find)
			if err != nil {
				return err
			}
			bar := newBar(c.App.ErrWriter, "checking", "snapshots")
			all, err := snapshot.List(c.Context, dir, c.Bool("check"), func(done, all int) {
				bar.ChangeMax(all + 1) // a bar that has reached its end is not drawn again
				_ = bar.Set(done)
			})
			_ = bar.Finish()
			if errors.Is(err, fs.ErrNotExist) {
				return failed(fmt.Errorf("there is no folder %s: name another, or make a snapshot with 'reap snapshot save'", dir))
			}
			if err != nil {
				return failed(err)
			}
			r := listedSnapshots{Dir: dir, Snapshots: all}
			if err := print(c.App.Writer, format, r); err != nil {
				return failed(err)
			}
			return failed(r.verdict())
		},
	})
}

func pruneSnapshotsCommand() *cli.Command {
	flags, find := config.DataDirFlags()
	return command(pruneExamples, &cli.Command{
		Name:        "prune",
		Usage:       "remove all but the newest snapshots of a folder",
		UsageText:   "reap snapshot prune [DIR] --retain N [flags]",
		Description: pruneDescription,
		Flags: append(flags, outputFlag(), yesFlag(), &cli.IntFlag{
			Name: "retain", Category: "Snapshot", Usage: "`N` how many to keep, 1 at least", Value: -1, DefaultText: "none, has to be given",
		}, &cli.BoolFlag{
			Name: "dry-run", Category: "Snapshot", Usage: "show what would be removed and remove nothing", DisableDefaultText: true,
		}),
		Action: func(c *cli.Context) error {
			format, err := checkOutput(c)
			if err != nil {
				return err
			}
			retain, dry := c.Int("retain"), c.Bool("dry-run")
			if retain < 1 {
				return fmt.Errorf("--retain says how many to keep, 1 at least; see '%s --help'", c.Command.HelpName)
			}
			dir, err := snapshotDir(c, find)
			if err != nil {
				return err
			}
			if !dry {
				if err := checkConfirmable(c, "reap snapshot prune --dry-run"); err != nil {
					return err
				}
			}
			r := prunedSnapshots{Dir: dir, DryRun: dry}
			if r.Removed, err = snapshot.Prune(c.Context, dir, retain, true); err != nil {
				return failed(err)
			}
			if !dry && len(r.Removed) > 0 {
				if !c.Bool("yes") {
					if err := print(c.App.ErrWriter, "text", prunedSnapshots{Dir: dir, DryRun: true, Removed: r.Removed}); err != nil {
						return failed(err)
					}
				}
				if err := confirm(c, "Remove?"); err != nil {
					return failed(err)
				}
				if r.Removed, err = snapshot.Prune(c.Context, dir, retain, false); err != nil {
					return failed(err)
				}
			}
			return failed(print(c.App.Writer, format, r))
		},
	})
}

func restoreSnapshotCommand() *cli.Command {
	flags, find := config.DataDirFlags()
	c := command(restoreExamples, &cli.Command{
		Name:        "restore",
		Usage:       "make a server's data directory from a snapshot",
		UsageText:   "reap snapshot restore FILE|- [flags]",
		Description: restoreDescription,
		Flags: append(flags, outputFlag(), withoutPKIFlag("keep the keys and certificates that are there, or have new ones made"), &cli.StringFlag{
			Name: "engine", Category: "Storage", Usage: "`ENGINE` what the datastore is to be, sqlite or etcd (default: as it was, and sqlite if there was none)",
		}),
		Action: func(c *cli.Context) (err error) {
			format, err := checkOutput(c)
			if err != nil {
				return err
			}
			engine := c.String("engine")
			if !slices.Contains([]string{"", "sqlite", config.EmbeddedEtcd}, engine) {
				return fmt.Errorf("--engine: unknown datastore %q: give sqlite or etcd", engine)
			}
			if c.Args().Len() != 1 {
				return fmt.Errorf("name one snapshot, or - for standard input; see '%s --help'", c.Command.HelpName)
			}
			dataDir, err := find()
			if err != nil {
				return err
			}
			if dataDir == "" {
				return errors.New("--data-dir: no directory is given, and there is no home directory to look in: name one")
			}
			in, err := openSnapshot(c.Context, c.Args().First())
			if err != nil {
				return err
			}
			defer func() { _ = in.Close() }() // only read
			if err := configureLogging(config.Log{Level: "warn", Format: "text"}, c.App.ErrWriter, outage.New()); err != nil {
				return err
			}
			bar := newKeyBar(c.App.ErrWriter, "restoring")
			defer bar.done()
			done, err := server.Restore{
				DataDir: dataDir, From: in, Engine: engine, WithoutPKI: c.Bool("without-pki"), Now: time.Now(), Version: Version, Progress: bar.show,
			}.Run(c.Context)
			if err != nil {
				return failed(err)
			}
			bar.done()
			return failed(print(c.App.Writer, format, restoredSnapshot{done}))
		},
	})
	c.BashComplete = func(ctx *cli.Context) {
		if word := os.Args[len(os.Args)-2]; strings.HasPrefix(word, "-") {
			cli.DefaultCompleteWithFlags(c)(ctx)
			return
		}
		dataDir, err := find()
		if err != nil || dataDir == "" {
			return
		}
		paths, _ := filepath.Glob(filepath.Join(config.SnapshotDir(dataDir), "*"+snapshot.Suffix)) // the pattern is good
		fmt.Fprint(ctx.App.Writer, strings.Join(append(paths, ""), "\n"))
	}
	return c
}

// openSnapshot opens a snapshot's file, or standard input if the path is -.
func openSnapshot(ctx context.Context, path string) (io.ReadCloser, error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("opening the snapshot: %w", err)
		}
		return f, nil
	}
	if terminal(os.Stdin) != nil {
		return nil, errors.New("a snapshot cannot be typed at a terminal: redirect standard input, or name a file")
	}
	// Reading standard input does not end with ctx; the process does soon after.
	out, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, os.Stdin)
		_ = in.CloseWithError(err) // never fails; without an error it is the end
	}()
	context.AfterFunc(ctx, func() { _ = in.CloseWithError(context.Cause(ctx)) })
	return out, nil
}

// snapshotDir returns the folder that a command line names, or that of this machine's server.
func snapshotDir(c *cli.Context, find func() (string, error)) (string, error) {
	if c.Args().Len() > 1 {
		return "", tooMany(c)
	}
	if c.Args().Present() {
		return filepath.Abs(c.Args().First())
	}
	dataDir, err := find()
	if err != nil {
		return "", err
	}
	if dataDir == "" {
		return "", fmt.Errorf("there is no data directory to keep snapshots in: name a folder; see '%s --help'", c.Command.HelpName)
	}
	return config.SnapshotDir(dataDir), nil
}

func tooMany(c *cli.Context) error {
	return fmt.Errorf("%s takes one folder; see '%s --help'", c.Command.HelpName, c.Command.HelpName)
}

// savedSnapshot is what `reap snapshot save` shows.
type savedSnapshot struct{ snapshot.File }

// Print writes it for people.
func (s savedSnapshot) Print(out io.Writer) error {
	_, err := fmt.Fprintf(out, "%s: %d keys at revision %d, %s, %s\n", escape.Text(s.Path), s.Keys, s.Revision, humanize.Bytes(uint64(s.Bytes)), pkiText(s.PKI))
	return err
}

// listedSnapshots is what `reap snapshot list` shows.
type listedSnapshots struct {
	Dir       string          `json:"dir"`
	Snapshots []snapshot.File `json:"snapshots"`
}

// Print writes them for people.
func (l listedSnapshots) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tMADE\tREVISION\tKEYS\tPKI\tSIZE\tPROBLEM")
	for _, s := range l.Snapshots {
		if s.Problem != "" && s.Version == 0 { // not even the manifest
			fmt.Fprintf(w, "%s\t-\t-\t-\t-\t%s\t%s\n", escape.Text(s.Name), humanize.Bytes(uint64(s.Bytes)), escape.Text(s.Problem))
			continue
		}
		problem := s.Problem
		if problem == "" {
			problem = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%t\t%s\t%s\n", escape.Text(s.Name), s.Made.Format(time.RFC3339), s.Revision, s.Keys, s.PKI, humanize.Bytes(uint64(s.Bytes)), escape.Text(problem))
	}
	return w.Flush()
}

// verdict is an error if one of them cannot be used.
func (l listedSnapshots) verdict() error {
	bad := 0
	for _, s := range l.Snapshots {
		if s.Problem != "" {
			bad++
		}
	}
	if bad == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d snapshots in %s cannot be used", bad, len(l.Snapshots), l.Dir)
}

// prunedSnapshots is what `reap snapshot prune` shows.
type prunedSnapshots struct {
	Dir     string          `json:"dir"`
	DryRun  bool            `json:"dryRun"`
	Removed []snapshot.File `json:"removed"`
}

// Print writes them for people.
func (p prunedSnapshots) Print(out io.Writer) error {
	word := map[bool]string{true: "would be removed", false: "removed"}[p.DryRun]
	for _, s := range p.Removed {
		if _, err := fmt.Fprintf(out, "%s %s\n", escape.Text(s.Name), word); err != nil {
			return err
		}
	}
	if len(p.Removed) > 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "nothing to remove in %s\n", escape.Text(p.Dir))
	return err
}

// restoredSnapshot is what `reap snapshot restore` shows.
type restoredSnapshot struct{ server.Restored }

// Print writes it for people.
func (r restoredSnapshot) Print(out io.Writer) error {
	keys := "the keys and certificates are as they were"
	if r.PKIRestored {
		keys = "the keys and certificates are the snapshot's"
	}
	text := fmt.Sprintf("restored %d keys of %s as %s; %s\n", r.Keys, r.Made.Format(time.RFC3339), r.Engine, keys)
	for _, path := range r.Kept {
		text += "kept " + path + "\n"
	}
	text += startOn(r.Engine)
	text += "the collector and the controllers that delete will be held when the server starts: see with 'reap lint -A' what would be collected, then run 'reap resume'\n"
	_, err := io.WriteString(out, text)
	return err
}

func pkiText(with bool) string {
	if with {
		return "with keys and certificates"
	}
	return "without keys and certificates"
}
