package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/listing"
	"github.com/reap-dev/reap/pkg/gc/report"
)

const whyDescription = `Says why an object exists, or why it still exists although somebody has deleted it: what the collector knows of each of its owners, what blocks its deletion, down to the object that holds all others, until when it waits, and what happens next. For a namespace it says what is left in it, and which of these objects hold it. It also shows the commands that would free the object, and what each of them gives up.

Where no collector of reap answers, it lists the cluster's metadata and follows the rules of Kubernetes' own collector.`

const whyExamples = `reap why deployments/web -n shop
reap why namespaces/shop
reap why crd/widgets.example.com
reap why configmap settings -o json
reap why pods -l app=web -n shop`

func whyCommand() *cli.Command {
	flags, client := config.ClientFlags(installedServices)
	flags = append(flags, serverSideFlag())
	flags = append(flags, selectionFlags()...)
	return command(whyExamples, &cli.Command{
		Name:        "why",
		Usage:       "say why an object exists, or why it is still terminating",
		UsageText:   "reap why TYPE/NAME… [flags]",
		Description: whyDescription,
		Flags:       append(flags, outputFlag()),
		Action: func(c *cli.Context) error {
			if err := checkNamed(c); err != nil {
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
			objects, missing := server.objects(c.Context, c.Args().Slice(), server.selected(c))
			a := newAsker(c, server)
			for i, o := range objects {
				w, err := a.why(c.Context, o)
				if err != nil {
					return failed(errors.Join(missing, err))
				}
				server.readHolders(c.Context, &w)
				w.Advise(sameServer(client))
				if i > 0 && format == "text" {
					w.Basis.Note, w.Basis.Incomplete = "", nil // people have read it
					fmt.Fprintln(c.App.Writer)
				}
				if err := print(c.App.Writer, format, w); err != nil {
					return failed(err)
				}
			}
			return failed(missing)
		},
	})
}

// why explains an object.
func (a *asker) why(ctx context.Context, o *object) (w report.Why, err error) {
	query := url.Values{"group": {o.resource.Group}, "resource": {o.resource.Resource}, "uid": {string(o.metadata.UID)}}
	err = a.ask(ctx, "why", query, &w, func(l *listing.Result, b report.Basis) error {
		v, ok := l.Graph.View(o.key())
		if !ok {
			return unlisted(o.key())
		}
		w = report.Explain(l.Graph, &v, decide.Options{}, l.Now)
		w.Again, w.Basis = time.Time{}, b
		return nil
	})
	w.Finalizers = o.metadata.Finalizers
	return w, err
}

// named is how reports name an object.
func (o *object) named() report.Object {
	return report.Object{
		Group: o.resource.Group, Resource: o.resource.Resource, Namespace: o.metadata.Namespace, Name: o.metadata.Name, UID: o.metadata.UID,
	}
}
