package cli

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/gc/report"
)

const statusDescription = `Shows what the collector is doing: whether it is paused, how long its queues are, which resources it cannot list, which cascades run, how far they are and what holds them, and every object that has been deleted and is still there, with what holds it and until when.

With --watch it continues until Ctrl-C. It redraws a terminal; elsewhere it prints one status after the other, with -o json one on each line.`

const statusExamples = `reap status
reap status --watch
reap status --kubeconfig ~/edge-1.kubeconfig -o json`

// shortestInterval is the shortest of --interval.
const shortestInterval = 100 * time.Millisecond

func statusCommand() *cli.Command {
	flags, client := config.ClientFlags()
	return command(statusExamples, &cli.Command{
		Name:        "status",
		Usage:       "show what the collector is doing, and what waits for whom",
		UsageText:   "reap status [flags]",
		Description: statusDescription,
		Flags: append(flags, outputFlag(), &cli.BoolFlag{
			Name: "watch", Aliases: []string{"w"}, Category: "Output", Usage: "show it again and again until Ctrl-C", DisableDefaultText: true,
		}, &cli.DurationFlag{
			Name: "interval", Value: time.Second, DefaultText: "1s", Category: "Output", Usage: "`DURATION` time between two looks with --watch",
		}),
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			format, err := checkOutput(c)
			if err != nil {
				return err
			}
			every := c.Duration("interval")
			if every < shortestInterval || c.IsSet("interval") && !c.Bool("watch") {
				return fmt.Errorf("--interval goes with --watch and is %s at least; see '%s --help'", shortestInterval, c.Command.HelpName)
			}
			server, err := connect(client)
			if err != nil {
				return err
			}
			if c.Bool("watch") {
				return failed(server.watchStatus(c.Context, c.App.Writer, format, every))
			}
			var s report.Status
			if err := server.report(c.Context, "status", nil, &s); err != nil {
				return failed(err)
			}
			return failed(print(c.App.Writer, format, s))
		},
	})
}
