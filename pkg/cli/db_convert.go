package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/pkg/datastore/outage"
	"github.com/reap-dev/reap/pkg/server"
)

const convertDescription = `Makes the SQLite database of a data directory an embedded etcd, or the other way round. No server may run on the data directory, and the disk needs room for both stores.

The new store is built beside the old one, and each key is compared, before it takes the old one's place. The old store is kept under a name that is shown; remove it when nobody needs it. If the command is interrupted, the old store is in its place, or the next run or start of the server completes the exchange: run it again.

Set the server's option to match the new store: for etcd, --datastore-endpoint=etcd, or datastore-endpoint: etcd in the configuration file; for SQLite, no such option. With the other setting, the server refuses to start.

Objects keep their UIDs and resourceVersions. The new store goes on at a later revision, so that every client lists everything anew. Events and all other keys that expire start their time to live anew, as at each start of a server.

To go back with all that has changed since, convert again. To go back to what was, with the server stopped: move the new store's folder away, give the old one its name again, and restart whoever watches the server.`

const convertExamples = `systemctl stop reap
reap db convert --to etcd
echo 'datastore-endpoint: etcd' >> /etc/reap/config.yaml
systemctl start reap`

func convertCommand() *cli.Command {
	flags, find := config.StoreFlags(installedServices)
	return command(convertExamples, &cli.Command{
		Name:        "convert",
		Usage:       "make the datastore an embedded etcd, or SQLite",
		UsageText:   "reap db convert --to sqlite|etcd [flags]",
		Description: convertDescription,
		Flags: append(flags, outputFlag(), &cli.StringFlag{
			Name: "to", Category: "Conversion", Usage: "`ENGINE` what the datastore is to be, sqlite or etcd", DefaultText: "none, has to be given",
		}),
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			output, err := checkOutput(c)
			if err != nil {
				return err
			}
			to, err := checkEngine(c)
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
			bars := stepBars{out: c.App.ErrWriter}
			defer bars.done()
			done, err := server.Convert{DataDir: dir, To: to, Now: time.Now(), Progress: bars.show}.Run(c.Context)
			if err != nil {
				return failed(err)
			}
			bars.done()
			return failed(print(c.App.Writer, output, convertedStore{done}))
		},
	})
}

// checkEngine returns the value of --to, or what is wrong with it.
func checkEngine(c *cli.Context) (string, error) {
	known := []string{datastore.SQLite, datastore.Etcd}
	to := c.String("to")
	switch {
	case slices.Contains(known, to):
		return to, nil
	case to == "":
		return "", errors.New("--to says what the datastore is to be: give sqlite or etcd")
	}
	text := fmt.Sprintf("--to: unknown datastore %q: give sqlite or etcd", to)
	if n := config.Nearest(to, known); n != "" {
		text += fmt.Sprintf(" (did you mean %s?)", n)
	}
	return "", errors.New(text)
}

// stepBars shows how many keys have come, with a bar for each step.
type stepBars struct {
	out  io.Writer
	step string
	bar  keyBar
}

func (b *stepBars) show(step string, done, all int64) {
	if step != b.step {
		b.done()
		b.step, b.bar = step, newKeyBar(b.out, step)
	}
	b.bar.show(done, all)
}

// done takes the bar off the terminal.
func (b *stepBars) done() {
	if b.step != "" {
		b.bar.done()
	}
}

// convertedStore is what `reap db convert` shows.
type convertedStore struct{ server.Converted }

// Print writes it for people.
func (s convertedStore) Print(out io.Writer) error {
	text := fmt.Sprintf("converted %d keys from %s to %s, each compared; revisions go on after %d\n", s.Keys, s.From, s.To, s.Revision)
	if s.Keys == 0 {
		text = fmt.Sprintf("completed an interrupted conversion from %s to %s; revisions go on after %d\n", s.From, s.To, s.Revision)
	}
	text += "kept " + s.Kept + "\n" + startOn(s.To)
	_, err := io.WriteString(out, text)
	return err
}

// startOn says how to start a server on the store that a command has made in its data directory.
func startOn(engine string) string {
	if engine == datastore.Etcd {
		return "start the server with --datastore-endpoint=etcd now, or with 'datastore-endpoint: etcd' in its configuration file\n"
	}
	return "start the server without --datastore-endpoint now, and without datastore-endpoint in its configuration file\n"
}
