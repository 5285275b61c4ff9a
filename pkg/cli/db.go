package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/pkg/datastore/outage"
	"github.com/reap-dev/reap/pkg/server"
)

const dbDescription = `stats shows what fills the datastore in the data directory of this machine's server, SQLite or the embedded etcd, check finds damage, export writes all of it into a file that others can read, and convert makes one of the other. compact makes the file of SQLite smaller; an etcd gives free pages back by itself.

stats, check and export change no key, and the server may run meanwhile, except for checking an etcd. compact and convert need it stopped. PostgreSQL, MySQL and an etcd elsewhere have tools of their own.`

const dbExamples = `reap db stats
reap db check
reap db compact
reap db export store.jsonl
reap db convert --to etcd`

const statsDescription = `Shows the files of the datastore, its pages, revisions, the keys of each resource with their bytes, and the ten largest keys.

HISTORY is what older revisions and deletions take; the embedded etcd does not tell. The server removes them by itself, every five minutes, except the newest 1,000 revisions. Free pages are used by new objects; for SQLite 'reap db compact' gives them back to the disk.`

const statsExamples = `reap db stats
reap db stats --data-dir /srv/reap -o json`

const dbCheckDescription = `Reads all of the database: its log, its pages and indexes, how the revisions of each key build on each other, and whether each value can be decoded and has the namespace, the name and the kind of its key. It repairs nothing. The server may run meanwhile if it keeps its objects in SQLite; stop it to check an etcd.

Neither SQLite nor an etcd keeps checksums of its pages: damage within a value may leave a value that can be decoded. A log that has lost its end looks the same as after a power cut.

Exit code 1: the database is damaged. 'reap snapshot restore' makes a new one and keeps the old one.`

const dbCheckExamples = `reap db check
reap db check --data-dir /srv/reap -o json
systemctl stop reap; reap db check; systemctl start reap`

const compactDescription = `Writes the database anew without its free pages, so that its file becomes smaller. No server may run on the data directory, and the disk needs room for the new file beside the old one.

The new file takes the old one's place once it is complete, checked and on the disk; if the command is interrupted, the old one stays. A server does not need this: it uses free pages itself.`

const compactExamples = `systemctl stop reap
reap db compact
systemctl start reap`

func dbCommand() *cli.Command {
	return command(dbExamples, &cli.Command{
		Name:        "db",
		Usage:       "show, check, compact, export or convert the database of this machine's server",
		UsageText:   "reap db stats|check|compact|export|convert [flags]",
		Description: dbDescription,
		Subcommands: []*cli.Command{
			dbSubcommand(statsExamples, &cli.Command{
				Name: "stats", Usage: "show what fills the database", Description: statsDescription,
			}, dbWork{verb: "reading", what: "rows", do: func(ctx context.Context, dir string, progress func(done, all int64)) (printable, error) {
				s, err := server.StoreStats(ctx, dir, progress)
				return databaseStats{s}, err
			}}),
			dbSubcommand(dbCheckExamples, &cli.Command{
				Name: "check", Usage: "find damage in the database", Description: dbCheckDescription,
			}, dbWork{verb: "checking", what: "rows", do: func(ctx context.Context, dir string, progress func(done, all int64)) (printable, error) {
				c, err := server.CheckStore(ctx, dir, progress)
				return checkedDatabase{c}, err
			}}),
			dbSubcommand(compactExamples, &cli.Command{
				Name: "compact", Usage: "make the file of the database smaller", Description: compactDescription,
			}, dbWork{sqlite: true, verb: "compacting", what: "bytes", do: func(ctx context.Context, dir string, progress func(done, all int64)) (printable, error) {
				c, err := server.CompactDatabase(ctx, dir, progress)
				return compactedDatabase{c}, err
			}}),
			exportCommand(),
			convertCommand(),
		},
		Action: showSubcommands,
	})
}

// dbWork is what a command does with a database.
type dbWork struct {
	// sqlite is true if there is nothing to be done with an etcd.
	sqlite bool
	// verb and what are for the progress bar: what is counted while it is done.
	verb, what string
	do         func(ctx context.Context, dir string, progress func(done, all int64)) (printable, error)
}

// dbSubcommand completes a command that works on the database.
func dbSubcommand(examples string, c *cli.Command, work dbWork) *cli.Command {
	flags, find := config.StoreFlags(installedServices)
	c.UsageText = "reap db " + c.Name + " [flags]"
	c.Flags = append(flags, outputFlag())
	c.Action = func(c *cli.Context) error {
		if err := noArguments(c); err != nil {
			return err
		}
		format, err := checkOutput(c)
		if err != nil {
			return err
		}
		dir, err := databaseDir(c, find)
		if err != nil {
			return err
		}
		if work.sqlite && missing(filepath.Join(dir, "db")) {
			return fmt.Errorf("--data-dir: the server keeps its objects in an etcd in %[1]s, and %[2]s is for SQLite: use etcd's own tools "+
				"while the server runs, such as 'etcdctl --endpoints=unix://%[1]s/etcd.sock endpoint status'", dir, c.Command.HelpName)
		}
		if err := configureLogging(config.Log{Level: "warn", Format: "text"}, c.App.ErrWriter, outage.New()); err != nil {
			return err
		}
		bar := newBar(c.App.ErrWriter, work.verb, work.what)
		r, err := work.do(c.Context, dir, shownIn(bar))
		_ = bar.Finish() // takes it off the terminal
		if err != nil {
			return failed(err)
		}
		if err := print(c.App.Writer, format, r); err != nil {
			return failed(err)
		}
		if v, ok := r.(interface{ verdict() error }); ok {
			return failed(v.verdict())
		}
		return nil
	}
	return command(examples, c)
}

// databaseDir returns the data directory whose datastore a command works on.
func databaseDir(c *cli.Context, find func() (config.Store, error)) (string, error) {
	store, err := find()
	switch {
	case err != nil:
		return "", err
	case store.Endpoint != "" && store.Endpoint != config.EmbeddedEtcd:
		scheme := "other"
		if u, err := url.Parse(store.Endpoint); err == nil && u.Scheme != "" { // all else may be a secret
			scheme = u.Scheme
		}
		return "", fmt.Errorf("--datastore-endpoint: this machine's server keeps its objects in a datastore elsewhere (%s), and %s is for those in a data directory: use that datastore's own tools, or name the data directory of another server with --data-dir", scheme, c.Command.HelpName)
	case store.DataDir == "":
		return "", errors.New("--data-dir: no directory is given, and there is no home directory to look in: name one")
	case missing(filepath.Join(store.DataDir, "db")) && missing(filepath.Join(store.DataDir, "etcd")):
		return "", fmt.Errorf("--data-dir: there is no database in %s: name the data directory of a reap server that keeps its objects there", store.DataDir)
	}
	return store.DataDir, nil
}

// shownIn returns a function that shows progress, but not each step of it.
func shownIn(bar *progressbar.ProgressBar) func(done, all int64) {
	shown := int64(-drawEvery)
	return func(done, all int64) {
		if done-shown >= drawEvery {
			shown = done
			bar.ChangeMax64(all + 1) // a bar that has reached its end is not drawn again
			_ = bar.Set64(done)
		}
	}
}

// databaseStats is what `reap db stats` shows.
type databaseStats struct{ datastore.Stats }

// Print writes them for people.
func (s databaseStats) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range s.Files {
		fmt.Fprintf(w, "%s\t%s\n", f.Name, inBytes(f.Bytes))
	}
	fmt.Fprintf(w, "pages\t%d of %s, %d of them free (%s)\n", s.Pages, inBytes(s.PageSize), s.FreePages, inBytes(s.FreePages*s.PageSize))
	fmt.Fprintf(w, "revision\t%d, compacted up to %d\n", s.Revision, s.Compacted)
	fmt.Fprintf(w, "keys\t%d, %s\n", s.Keys, inBytes(s.Bytes))
	if s.History > 0 { // an etcd does not tell
		fmt.Fprintf(w, "history\t%d rows, %s\n", s.History, inBytes(s.HistoryBytes))
	}
	fmt.Fprintln(w, "\nRESOURCE\tKEYS\tBYTES\tHISTORY")
	for _, r := range s.Resources {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", r.Resource, r.Keys, inBytes(r.Bytes), inBytes(r.HistoryBytes))
	}
	fmt.Fprintln(w, "\nLARGEST\tBYTES")
	for _, k := range s.Largest {
		fmt.Fprintf(w, "%s\t%s\n", k.Key, inBytes(k.Bytes))
	}
	return w.Flush()
}

// checkedDatabase is what `reap db check` shows.
type checkedDatabase struct{ datastore.Checked }

// Print writes it for people.
func (c checkedDatabase) Print(out io.Writer) error {
	var b strings.Builder
	for _, p := range c.Problems {
		fmt.Fprintln(&b, p)
	}
	if c.Further > 0 {
		fmt.Fprintf(&b, "and %d more\n", c.Further)
	}
	if len(c.Problems) == 0 {
		fmt.Fprintf(&b, "%s is in order: %d rows, %d keys\n", c.Path, c.Rows, c.Keys)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// verdict is an error if the database is damaged.
func (c checkedDatabase) verdict() error {
	if len(c.Problems) == 0 {
		return nil
	}
	return fmt.Errorf("the database %s is damaged: stop the server and restore a snapshot with 'reap snapshot restore', which keeps what is there; without a snapshot, save one from the running server as far as that goes with 'reap snapshot save'", c.Path)
}

// compactedDatabase is what `reap db compact` shows.
type compactedDatabase struct{ datastore.Compacted }

// Print writes it for people.
func (c compactedDatabase) Print(out io.Writer) error {
	_, err := fmt.Fprintf(out, "%s: %s, before %s\n", c.Path, inBytes(c.After), inBytes(c.Before))
	return err
}

func inBytes(bytes int64) string { return humanize.Bytes(uint64(bytes)) }
