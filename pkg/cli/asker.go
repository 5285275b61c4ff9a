package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/urfave/cli/v2"
	"k8s.io/client-go/discovery"

	"github.com/reap-dev/reap/pkg/gc/listing"
	"github.com/reap-dev/reap/pkg/gc/report"
)

// asker answers questions about a cluster's graph: from the memory of the collector that
// runs there, or else from one listing of the cluster, which all questions share.
type asker struct {
	server *connection
	// listed and basis are set once the cluster has been listed.
	listed *listing.Result
	basis  report.Basis
	// disabled are the controllers of a server of reap that are known not to run.
	disabled []string
	// note says why the collector is not asked; empty while it is.
	note     string
	progress io.Writer
}

// serverSideFlag is the flag of the commands that use an asker.
func serverSideFlag() cli.Flag {
	return &cli.BoolFlag{
		Name: "server-side", Value: true, Category: "Access",
		Usage: "ask the collector that runs in the cluster; with =false, or where none answers, list the cluster's metadata with your own rights",
	}
}

func newAsker(c *cli.Context, server *connection) *asker {
	a := &asker{server: server, progress: c.App.ErrWriter}
	if !c.Bool("server-side") {
		a.note = "as --server-side=false asks for"
	}
	return a
}

// namedAtOnce is how many objects one question to the collector may name: they are part of a URL, which servers take up to
// a length.
const namedAtOnce = 2000

// bound has a question that names too many objects answered from a listing. does is what the collector does with fewer.
func (a *asker) bound(named int, does string) {
	if named > namedAtOnce && a.note == "" {
		a.note = fmt.Sprintf("the collector %s of %d objects at once, and no more", does, namedAtOnce)
	}
}

// ask answers a question: into is filled in by the running collector's report of that name,
// or else fromListing is called, which makes the same report from a listing.
func (a *asker) ask(ctx context.Context, name string, query url.Values, into any, fromListing func(*listing.Result, report.Basis) error) error {
	if a.note == "" {
		err := a.server.report(ctx, name, query, into)
		var un *unanswered
		if !errors.As(err, &un) {
			return err
		}
		a.note = un.note
	}
	if a.listed == nil {
		if err := a.list(ctx); err != nil {
			return err
		}
	}
	return fromListing(a.listed, a.basis)
}

// list lists the cluster.
func (a *asker) list(ctx context.Context) error {
	bar := newListingBar(a.progress)
	listed, err := listing.List(ctx, a.server.config, listing.Options{Progress: bar.show})
	bar.done()
	if err != nil {
		return fmt.Errorf("the list of the cluster could not be completed: %w", a.server.failed(err))
	}
	a.listed = listed
	rules, status := a.rules(ctx)
	a.disabled = status.Disabled
	a.basis = report.Basis{
		Source: report.FromListing, Rules: rules, NoCollector: status.Absent != "" && rules == report.RulesOfKubernetes, Note: a.note, Objects: listed.Graph.Stats().Nodes,
	}
	for _, g := range listed.Gaps {
		a.basis.Incomplete = append(a.basis.Incomplete, report.Gap{What: g.What, Why: g.Err.Error()})
	}
	return nil
}

// rules returns whose rules say what happens next: reap's if its collector is known to run, here or in another server; and
// the server's status as far as the caller may see it. The version tells a server of reap to a caller who may not.
func (a *asker) rules(ctx context.Context) (rules string, s report.Status) {
	err := a.server.report(ctx, "status", nil, &s)
	var un *unanswered
	switch {
	case err == nil && (s.Running || s.Elsewhere):
		return report.RulesOfReap, s
	case err == nil:
		return report.RulesOfKubernetes, s
	case errors.As(err, &un) && un.forbidden:
		if d, err := discovery.NewDiscoveryClientForConfig(a.server.config); err == nil {
			if v, err := d.ServerVersion(); err == nil && strings.HasSuffix(v.GitVersion, "+reap") {
				return report.RulesOfReap, report.Status{}
			}
		}
	}
	return report.RulesOfKubernetes, report.Status{}
}
