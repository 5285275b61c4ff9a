package cli

import (
	"cmp"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/gc/report"
)

const whyDescription = `Says why an object is there, or still there although somebody has deleted it: what the collector knows of each of its owners, who blocks its deletion, until when it waits, and what happens next.`

const whyExamples = `reap why deployments/web -n shop
reap why crd/widgets.example.com
reap why configmap settings -o json`

func whyCommand() *cli.Command {
	flags, client := config.ClientFlags()
	return command(whyExamples, &cli.Command{
		Name:        "why",
		Usage:       "say why an object exists, or why it is still terminating",
		UsageText:   "reap why TYPE/NAME [flags]",
		Description: whyDescription,
		Flags:       append(flags, namespaceFlag(), outputFlag()),
		Action: func(c *cli.Context) error {
			kind, name, err := objectArguments(c.Args().Slice())
			if err != nil {
				return fmt.Errorf("%w; see '%s --help'", err, c.Command.HelpName)
			}
			format, err := checkOutput(c)
			if err != nil {
				return err
			}
			server, err := connect(client)
			if err != nil {
				return err
			}
			o, err := server.object(c.Context, kind, name, cmp.Or(c.String("namespace"), server.namespace))
			if err != nil {
				return failed(err)
			}
			var w report.Why
			err = server.report(c.Context, "why", map[string]string{
				"group": o.resource.Group, "resource": o.resource.Resource, "uid": string(o.metadata.UID),
			}, &w)
			if err != nil {
				return failed(err)
			}
			w.Finalizers = o.metadata.Finalizers
			return failed(print(c.App.Writer, format, w))
		},
	})
}
