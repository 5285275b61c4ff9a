package cli

import (
	"github.com/urfave/cli/v2"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/gc/report"
)

const statusDescription = `Shows what the collector is doing: whether it is paused, how long its queues are, which resources it cannot list, and which deletions wait, for whom and until when.`

const statusExamples = `reap status
reap status --kubeconfig ~/edge-1.kubeconfig -o json`

func statusCommand() *cli.Command {
	flags, client := config.ClientFlags()
	return command(statusExamples, &cli.Command{
		Name:        "status",
		Usage:       "show what the collector is doing, and what waits for whom",
		UsageText:   "reap status [flags]",
		Description: statusDescription,
		Flags:       append(flags, outputFlag()),
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			format, err := checkOutput(c)
			if err != nil {
				return err
			}
			server, err := connect(client)
			if err != nil {
				return err
			}
			var s report.Status
			if err := server.report(c.Context, "status", nil, &s); err != nil {
				return failed(err)
			}
			return failed(print(c.App.Writer, format, s))
		},
	})
}
