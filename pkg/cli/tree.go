package cli

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/listing"
	"github.com/reap-dev/reap/pkg/gc/report"
)

const treeDescription = `Shows objects with all their owners above and all their dependents below: how old and how ready they are, and what keeps those that are being deleted. Without an object it shows everything that has an owner, in the namespace or, with -A, in the cluster.

Where no collector of reap answers, it lists the cluster's metadata.

The exit code is 3 if the answer is incomplete: something could not be read, or there is no such namespace.`

const treeExamples = `reap tree deployments/web -n shop
reap tree -n shop
reap tree node/edge-1 -o dot | dot -Tsvg > edge-1.svg`

// treeLimit is how many objects a tree shows unless told otherwise.
const treeLimit = 200

func treeCommand() *cli.Command {
	flags, client := config.ClientFlags(installedServices)
	flags = append(flags, serverSideFlag())
	flags = append(flags, selectionFlags()...)
	return command(treeExamples, &cli.Command{
		Name:        "tree",
		Usage:       "show owners and dependents as a tree",
		UsageText:   "reap tree [TYPE/NAME…] [flags]",
		Description: treeDescription,
		Flags:       append(flags, outputFlag("dot"), limitFlag(treeLimit, "objects")),
		Action: func(c *cli.Context) error {
			format, err := checkOutput(c, "dot")
			if err != nil {
				return err
			}
			limit, err := checkLimit(c)
			if err != nil {
				return err
			}
			if format == "json" && !c.IsSet("limit") {
				limit = 0 // programs want all; a drawing of thousands is of no use
			}
			server, err := connect(client)
			if err != nil {
				return err
			}
			s := server.selected(c)
			o := report.TreeOptions{Limit: limit}
			var missing error
			switch named := c.Args().Present() || len(s.files) > 0; {
			case !named && s.labels != "":
				return fmt.Errorf("--selector needs a type, such as deployments; see '%s --help'", c.Command.HelpName)
			case !named && !s.all:
				o.Namespace = s.namespace
			case named:
				s.types = true
				var objects []*object
				objects, missing = server.objects(c.Context, c.Args().Slice(), s)
				if len(objects) == 0 {
					return failed(missing)
				}
				for _, one := range objects {
					o.Keys = append(o.Keys, one.key())
				}
			}
			t, err := newAsker(c, server).tree(c.Context, o)
			if err != nil {
				return failed(err)
			}
			if len(o.Keys) == 0 {
				if err := server.checkNamespace(c.Context, o.Namespace, t.Count, &t.Basis); err != nil {
					return failed(err)
				}
			}
			t.Basis.Pause = server.paused(c.Context)
			if err := server.describeTree(c.Context, &t); err != nil {
				return failed(err)
			}
			if format == "dot" {
				err = t.PrintDOT(c.App.Writer)
			} else {
				err = print(c.App.Writer, format, t)
			}
			if err != nil {
				return failed(err)
			}
			if missing != nil {
				return failed(missing)
			}
			return incomplete(t.Basis)
		},
	})
}

// tree asks for a tree.
func (a *asker) tree(ctx context.Context, o report.TreeOptions) (t report.Tree, err error) {
	a.bound(len(o.Keys), "shows the trees")
	query := url.Values{"limit": {strconv.Itoa(o.Limit)}, "namespace": {o.Namespace}}
	for _, k := range o.Keys {
		query.Add("object", k.Resource.String()+"/"+string(k.UID))
	}
	err = a.ask(ctx, "tree", query, &t, func(l *listing.Result, b report.Basis) error {
		for _, k := range o.Keys {
			if _, ok := l.Graph.View(k); !ok {
				return unlisted(k)
			}
		}
		t = report.NewTree(l.Graph, l.Graph.View, o, b, l.Now)
		return nil
	})
	return t, err
}

// unlisted says why a list does not show an object.
func unlisted(k graph.Key) error {
	return fmt.Errorf("the list does not show this object of %s: it has gone, or its resource cannot be listed, watched and deleted", k.Resource)
}
