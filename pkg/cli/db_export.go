package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/pkg/datastore/dump"
	"github.com/reap-dev/reap/pkg/datastore/outage"
	"github.com/reap-dev/reap/pkg/export"
	"github.com/reap-dev/reap/pkg/server"
)

// The formats of an export.
const (
	jsonLines    = "jsonl"
	etcdSnapshot = "etcd"
)

const exportDescription = `Writes all keys of the datastore, as they are at one revision, into a file or to standard output. It can be read without reap. The server may run meanwhile, on SQLite and on the embedded etcd; no key changes.

--format jsonl writes a JSON object a line for each key: key, createRevision and modRevision, version (how often it has changed; SQLite does not count), ttlSeconds if it goes by itself, apiVersion, kind, namespace and name of the object, value (as it is stored, in base64) and object (the value as JSON). A value that was encrypted at rest stays encrypted, and its line has no object.

--format etcd writes a snapshot of etcd, without history, for 'etcdutl snapshot restore'. The keys keep their revisions. It is built on the disk of the file first; for standard output, in the folder for temporary files.

The export holds every secret in the clear: only its owner may read the file. The file appears when it is complete, and replaces an existing one only with --force. For a backup that reap itself can restore, with the keys and certificates, use 'reap snapshot save'.`

const exportExamples = `reap db export store.jsonl
reap db export | jq -r 'select(.kind == "ConfigMap") | .namespace + "/" + .name'
reap db export | jq -c 'select(.namespace == "shop" and .kind == "ConfigMap") | .object' > shop.json
reap db export --format etcd store.db
etcdutl snapshot restore store.db --data-dir etcd-1 --bump-revision 1000000000 --mark-compacted`

func exportCommand() *cli.Command {
	flags, find := config.StoreFlags(installedServices)
	return command(exportExamples, &cli.Command{
		Name:        "export",
		Usage:       "write the whole datastore as JSON lines or as a snapshot of etcd",
		UsageText:   "reap db export [FILE|-] [flags]",
		Description: exportDescription,
		Flags: append(flags, outputFlag(), &cli.StringFlag{
			Name: "format", Category: "Export", Value: jsonLines, DefaultText: jsonLines, Usage: "`FORMAT` jsonl, a JSON object a line, or etcd, a snapshot of etcd",
		}, &cli.BoolFlag{
			Name: "force", Category: "Export", Usage: "replace the file if it is there", DisableDefaultText: true,
		}),
		Action: func(c *cli.Context) error {
			output, err := checkOutput(c)
			if err != nil {
				return err
			}
			path, err := exportPath(c)
			if err != nil {
				return err
			}
			dir, err := databaseDir(c, find)
			if err != nil {
				return err
			}
			if err := configureLogging(config.Log{Level: "warn", Format: "text"}, c.App.ErrWriter, outage.New()); err != nil {
				return err
			}
			e := exported{Format: c.String("format"), Path: path}
			bar := newKeyBar(c.App.ErrWriter, "exporting")
			defer bar.done()
			err = server.ReadStore(c.Context, dir, func(store *datastore.Opened) error {
				e.Engine = store.Engine
				write := func(out io.Writer) error { return e.write(c, out, store, bar.show) }
				if path == "-" {
					return write(c.App.Writer)
				}
				return writeNewFile(path, c.Bool("force"), write)
			})
			if err != nil || path == "-" {
				return failed(err)
			}
			bar.done()
			return failed(print(c.App.Writer, output, e))
		},
	})
}

// exportPath returns the file that an export is for, or - for standard output, after a look at the flags.
func exportPath(c *cli.Context) (path string, err error) {
	known := []string{jsonLines, etcdSnapshot}
	format := c.String("format")
	if !slices.Contains(known, format) {
		text := fmt.Sprintf("--format: unknown format %q: give %s or %s", format, jsonLines, etcdSnapshot)
		if n := config.Nearest(format, known); n != "" {
			text += fmt.Sprintf(" (did you mean %s?)", n)
		}
		return "", errors.New(text)
	}
	switch c.Args().Len() {
	case 0:
		path = "-"
	case 1:
		path = c.Args().First()
	default:
		return "", fmt.Errorf("%s takes one file, or - for standard output; see '%[1]s --help'", c.Command.HelpName)
	}
	if path != "-" {
		if path, err = filepath.Abs(path); err != nil {
			return "", err
		}
		return path, mayWrite(path, c.Bool("force"))
	}
	if c.IsSet("output") {
		return "", errors.New("--output is for an export into a file: standard output is the export's")
	}
	if format == etcdSnapshot && terminal(c.App.Writer) != nil {
		return "", errors.New("a snapshot of etcd is nothing for a terminal: redirect standard output, or name a file")
	}
	return path, nil
}

// exported is what `reap db export` shows.
type exported struct {
	Path     string `json:"path"`
	Format   string `json:"format"`
	Engine   string `json:"engine"`
	Revision int64  `json:"revision"`
	Keys     int64  `json:"keys"`
	Bytes    int64  `json:"bytes"`
}

// Print writes it for people.
func (e exported) Print(out io.Writer) error {
	_, err := fmt.Fprintf(out, "%s: %d keys at revision %d, %s; it holds every secret\n", e.Path, e.Keys, e.Revision, inBytes(e.Bytes))
	return err
}

// write writes the export of a store.
func (e *exported) write(c *cli.Context, out io.Writer, store *datastore.Opened, progress func(done, all int64)) (err error) {
	counted := &counting{out: out}
	var head dump.Head
	if e.Format == etcdSnapshot {
		head, err = e.writeEtcd(c, counted, store, progress)
	} else {
		head, err = export.JSONLines(c.Context, counted, store, progress)
	}
	e.Revision, e.Keys, e.Bytes = head.Revision, head.Keys, counted.bytes
	return err
}

func (e *exported) writeEtcd(c *cli.Context, out io.Writer, store *datastore.Opened, progress func(done, all int64)) (head dump.Head, err error) {
	beside := "" // the system's folder for temporary files
	if e.Path != "-" {
		beside = filepath.Dir(e.Path)
	}
	work, err := os.MkdirTemp(beside, ".reap-export-") // mode 0700
	if err != nil {
		return head, fmt.Errorf("making a folder for the database: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	return datastore.WriteEtcdSnapshot(c.Context, out, store, work, progress)
}

// counting counts the bytes that are written.
type counting struct {
	out   io.Writer
	bytes int64
}

// Write implements io.Writer.
func (c *counting) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	c.bytes += int64(n)
	return n, err
}
