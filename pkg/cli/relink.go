package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/metadata"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/gc/act"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/listing"
	"github.com/reap-dev/reap/pkg/gc/relink"
	"github.com/reap-dev/reap/pkg/gc/report"
)

const relinkDescription = `Mends ownerReferences after a restore or a copy. Objects that a backup tool or kubectl apply has made again have new UIDs, and the references of their dependents still have the old ones: the collector would delete the dependents. For each such reference it looks for the object that is where the reference says (group, kind, namespace, name), shows the list, asks, and rewrites the reference's UID, owners first. Each object is changed only if it is still the one that was read.

Pause the collector before the restore ('reap pause'), relink ('reap relink -A'), look at what is left ('reap lint -A'), then 'reap resume'. Without -A, both look at the objects of one namespace, and at no cluster-scoped object; the collector goes on in all namespaces.

With -f it rewrites the references in files instead, to owners that the cluster has already; nothing else in the files changes. It reads what kubectl apply reads, up to 256 MiB a file. Links that leave a folder, named pipes and devices in it are left out, and the answer is then incomplete.

A reference is left as it is if there is no object where it says, if that object is being deleted, or if its UID is that of an object of another kind or name. The exit code is 1 if any is left, or could not be rewritten. Otherwise it is 3 if the answer is incomplete: something could not be read or was left out, or there is no such namespace.`

const relinkExamples = `reap relink -A --dry-run
reap relink -n shop
reap relink -A --yes -o json
reap relink -f backup/ -R`

// relinkLimit is how many references are shown before the question unless told otherwise.
const relinkLimit = 100

func relinkCommand() *cli.Command {
	flags, client := config.ClientFlags()
	flags = append(flags,
		&cli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Category: "Object", Usage: "`NAME` namespace to look in, or that manifests are for (default: that of the kubeconfig's context, or default)"},
		&cli.BoolFlag{Name: "all-namespaces", Aliases: []string{"A"}, Category: "Object", Usage: "look in every namespace, and at cluster-scoped objects", DisableDefaultText: true},
		&cli.StringSliceFlag{Name: "filename", Aliases: []string{"f"}, Category: "Object", Usage: "`FILE` rewrite the references in a manifest, or in a directory of manifests"},
		&cli.BoolFlag{Name: "recursive", Aliases: []string{"R"}, Category: "Object", Usage: "also what is below the directories of --filename", DisableDefaultText: true},
		&cli.BoolFlag{Name: "dry-run", Category: "Confirmation", Usage: "show what would be rewritten, and change nothing", DisableDefaultText: true},
		yesFlag(), limitFlag(relinkLimit, "references"), outputFlag(),
	)
	return command(relinkExamples, &cli.Command{
		Name:        "relink",
		Usage:       "give references their owners' new UIDs after a restore or a copy",
		UsageText:   "reap relink [-n NAMESPACE | -A | -f FILE] [--dry-run] [--yes] [flags]",
		Description: relinkDescription,
		Flags:       flags,
		Action:      func(c *cli.Context) error { return runRelink(c, client) },
	})
}

func runRelink(c *cli.Context, client *config.Client) error {
	if err := noArguments(c); err != nil {
		return err
	}
	format, err := checkOutput(c)
	if err != nil {
		return err
	}
	limit, err := checkLimit(c)
	if err != nil {
		return err
	}
	dry := c.Bool("dry-run")
	if !dry {
		if err := checkConfirmable(c, "reap relink --dry-run"); err != nil {
			return err
		}
	}
	server, err := connect(client)
	if err != nil {
		return err
	}
	s := server.selected(c)
	var r relinking
	if len(s.files) > 0 {
		r, err = server.relinkFiles(c.Context, s)
	} else {
		r, err = server.relinkCluster(c, s)
	}
	if err != nil {
		return failed(fmt.Errorf("%w; nothing was changed", err))
	}
	talk := c.App.ErrWriter
	if dry && format == "text" {
		talk = c.App.Writer
	}
	if !dry {
		say(talk, "server  %s (from %s)\n\n", server.config.Host, server.source)
	}
	if !dry || format == "text" {
		if err := folded(talk, func(out io.Writer) error { return r.report.PrintPlan(out, limit) }); err != nil {
			return failed(err)
		}
	}
	r.report.DryRun = dry
	if !dry && len(r.report.Links) > 0 {
		if err := confirm(c, fmt.Sprintf("\nRewrite %s?", plural(len(r.report.Links), "reference"))); err != nil {
			return failed(err)
		}
		if err := r.apply(c.Context); err != nil {
			return failed(err)
		}
		r.report.Count()
	}
	if format != "text" || !dry && len(r.report.Links) > 0 {
		if err := print(c.App.Writer, format, r.report); err != nil {
			return failed(err)
		}
	}
	if r.report.Failed+len(r.report.Left) > 0 {
		// They have been printed: nothing is left to say.
		return &runError{err: errors.New("references are left"), print: func(io.Writer) {}}
	}
	return incomplete(r.report.Basis)
}

// relinking is what reap relink is about to do.
type relinking struct {
	report report.Relink
	// apply does it, and sets the results of the report's links. An error means that it could not be begun.
	apply func(context.Context) error
}

// relinkCluster finds out what to rewrite in the cluster.
func (c *connection) relinkCluster(command *cli.Context, s selection) (relinking, error) {
	ctx := command.Context
	bar := newListingBar(command.App.ErrWriter)
	listed, err := listing.List(ctx, c.config, listing.Options{Progress: bar.show})
	bar.done()
	if err != nil {
		return relinking{}, fmt.Errorf("the list of the cluster could not be completed: %w", c.failed(err))
	}
	in := relink.Input{Graph: listed.Graph, Now: listed.Now}
	var scope report.Scope
	if !s.all {
		scope.Namespace = s.namespace
		in.Only = func(r *graph.Record) bool { return r.Namespace == s.namespace }
	}
	b := report.Basis{Source: report.FromListing, Rules: report.RulesOfReap, Note: "with your own rights", Objects: listed.Graph.Stats().Nodes, Incomplete: gaps(listed)}
	plan, err := c.resolve(ctx, in)
	if err != nil {
		return relinking{}, err
	}
	scope.Judged = judged(in)
	if err := c.checkNamespace(ctx, scope.Namespace, scope.Judged, &b); err != nil {
		return relinking{}, c.failed(err)
	}
	b.Pause = c.paused(ctx)
	r := relinking{report: report.NewRelink(plan, scope, b, nil)}
	r.apply = func(ctx context.Context) error {
		objects := 0
		for _, level := range plan.Levels {
			objects += len(level)
		}
		bar := newWriteBar(command.App.ErrWriter, "relinking", objects)
		defer func() { _ = bar.Finish() }() // off the terminal
		return c.relink(ctx, listed.Graph.Catalog(), plan, r.report.Links, func() { _ = bar.Add(1) })
	}
	return r, nil
}

// resolve says what to do about the dangling references of a graph.
func (c *connection) resolve(ctx context.Context, in relink.Input) (relink.Plan, error) {
	dangling := relink.Find(in)
	occupants, err := listing.Occupants(ctx, c.config, dangling)
	if err != nil {
		return relink.Plan{}, c.failed(err)
	}
	return relink.Resolve(in.Graph, dangling, occupants), nil
}

// judged counts the objects that relink.Find looks at, also those that are being deleted, as reap lint and the list's own count do.
func judged(in relink.Input) (n int) {
	for _, o := range in.Graph.Objects() {
		if in.Only == nil || in.Only(o.Record) {
			n++
		}
	}
	return n
}

// gaps are what a listing could not look at.
func gaps(r *listing.Result) (all []report.Gap) {
	for _, g := range r.Gaps {
		all = append(all, report.Gap{What: g.What, Why: g.Err.Error()})
	}
	return all
}

// relinkedAtOnce is how many objects of one level are changed side by side.
const relinkedAtOnce = 8

// relink changes what a plan says, level by level, and sets the results of its links, which are in the plan's order. It calls
// progress after each object, also concurrently.
func (c *connection) relink(ctx context.Context, catalog *graph.Catalog, plan relink.Plan, links []report.Link, progress func()) error {
	client, err := metadata.NewForConfig(c.config)
	if err != nil {
		return err
	}
	actor := act.New(act.Clients{Metadata: client}, func() error { return nil }, func(act.Verb, act.Outcome) {})
	for _, level := range plan.Levels {
		var pool errgroup.Group
		pool.SetLimit(relinkedAtOnce)
		for _, change := range level {
			mine := links[:len(change.Links)]
			links = links[len(change.Links):]
			resource := catalog.Resource(change.Object.Key.Resource)
			pool.Go(func() error {
				relinkObject(ctx, actor, resource, change, mine)
				progress()
				return nil
			})
		}
		_ = pool.Wait() // each error has been noted
	}
	return nil
}

// relinkRounds bounds how often an object that changes meanwhile is read again.
const relinkRounds = 5

// relinkObject rewrites references of one object, and notes the result of each.
func relinkObject(ctx context.Context, actor *act.Actor, r *graph.Resource, change relink.Change, links []report.Link) {
	note := func(result string, err error) {
		for i := range links {
			links[i].Result = result
			if err != nil {
				links[i].Error = err.Error()
			}
		}
	}
	rec := change.Object.Record
	for range relinkRounds {
		refs, applied := relink.Rewrite(rec.References, change.Links)
		if applied == 0 {
			note(report.LinkUnneeded, nil)
			return
		}
		outcome, err := actor.SetReferences(ctx, r.Preferred(), rec, refs)
		switch {
		case err != nil:
			note(report.LinkFailed, err)
			return
		case outcome == act.Done:
			for i := range links {
				links[i].Result = report.LinkUnneeded
				if slices.Contains(rec.References, change.Links[i].Reference) {
					links[i].Result = report.LinkDone
				}
			}
			return
		}
		live, is, err := actor.Read(ctx, r.Preferred(), rec.Namespace, rec.Name, rec.UID)
		switch {
		case err != nil:
			note(report.LinkFailed, err)
			return
		case is == act.Absent:
			note(report.LinkUnneeded, nil)
			return
		}
		rec = live.Record()
	}
	note(report.LinkFailed, errors.New("the object changes faster than its references can be rewritten; try again"))
}
