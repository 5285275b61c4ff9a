package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/lint"
	"github.com/reap-dev/reap/pkg/gc/listing"
	"github.com/reap-dev/reap/pkg/gc/report"
	"github.com/reap-dev/reap/pkg/manifest"
)

const lintDescription = `Finds wrong ownerReferences (to owners that do not exist, that are in another namespace, or whose kind or version no server serves), objects that own each other, and deletions that do not end. Each finding says what will happen to the object and how to mend it. The command changes nothing.

Without -A it looks at the objects of one namespace, and at no cluster-scoped object. The collector works in all namespaces.

With -f it judges manifests, or a backup, against the cluster that they will be applied to: it finds the objects that the collector would delete as soon as they exist. It reads what kubectl apply reads, up to 256 MiB a file. Links that leave a folder, named pipes and devices in it are left out, and the answer is then incomplete.

The exit code is 1 if there is a finding; with --fail-on, if there is one with any of these codes. Otherwise it is 3 if the answer is incomplete: something could not be read or was left out, or there is no such namespace.`

const lintExamples = `reap lint -A
reap lint -n shop -o json
reap lint -f backup/ -R
reap lint -A --fail-on wrong-uid,dangling -o sarif > reap.sarif`

// lintLimit is how many findings are printed for people unless told otherwise.
const lintLimit = 100

func lintCommand() *cli.Command {
	flags, client := config.ClientFlags()
	flags = append(flags, serverSideFlag(),
		&cli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Category: "Object", Usage: "`NAME` namespace to look in, or that manifests are applied to (default: that of the kubeconfig's context, or default)"},
		&cli.BoolFlag{Name: "all-namespaces", Aliases: []string{"A"}, Category: "Object", Usage: "look in every namespace, and at cluster-scoped objects", DisableDefaultText: true},
		&cli.StringSliceFlag{Name: "filename", Aliases: []string{"f"}, Category: "Object", Usage: "`FILE` judge the objects of a manifest, a directory of manifests, a URL or - (standard input) before they are applied"},
		&cli.BoolFlag{Name: "recursive", Aliases: []string{"R"}, Category: "Object", Usage: "also what is below the directories of --filename", DisableDefaultText: true},
		outputFlag("sarif"), limitFlag(lintLimit, "findings"),
		&cli.StringFlag{Name: "fail-on", Category: "Output", Usage: "`CODES` the codes, separated by commas, that make the exit code 1 (default: all)"},
	)
	return command(lintExamples, &cli.Command{
		Name:        "lint",
		Usage:       "find bad ownerReferences, rings and deletions that do not end",
		UsageText:   "reap lint [-n NAMESPACE | -A | -f FILE] [flags]",
		Description: lintDescription + "\n\nThe codes: " + strings.Join(codeNames(), ", ") + ".",
		Flags:       flags,
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			format, err := checkOutput(c, "sarif")
			if err != nil {
				return err
			}
			codes, err := codesOf(c.String("fail-on"))
			if err != nil {
				return err
			}
			limit, err := checkLimit(c)
			if err != nil {
				return err
			}
			if format != "text" && !c.IsSet("limit") {
				limit = 0 // programs want all
			}
			server, err := connect(client)
			if err != nil {
				return err
			}
			s := server.selected(c)
			o := report.LintOptions{Namespace: s.namespace, Limit: limit}
			var l report.Lint
			if len(s.files) > 0 {
				l, err = server.lintManifests(c.Context, s, o)
			} else {
				if s.all {
					o.Namespace = ""
				}
				l, err = newAsker(c, server).lint(c.Context, o)
				if err == nil {
					err = server.checkNamespace(c.Context, o.Namespace, l.Judged, &l.Basis)
				}
				if err == nil {
					l.Basis.Pause = server.paused(c.Context)
				}
			}
			if err != nil {
				return failed(err)
			}
			if format == "sarif" {
				err = l.PrintSARIF(c.App.Writer, version())
			} else {
				err = print(c.App.Writer, format, l)
			}
			if err == nil && l.Fails(codes) {
				// The findings have been printed: nothing is left to say.
				return &runError{err: errors.New("there are findings"), print: func(io.Writer) {}}
			}
			if err != nil {
				return failed(err)
			}
			return incomplete(l.Basis)
		},
	})
}

func codeNames() (names []string) {
	for _, c := range lint.Codes() {
		names = append(names, string(c))
	}
	return names
}

// codesOf reads --fail-on.
func codesOf(text string) (codes []lint.Code, err error) {
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if !slices.Contains(codeNames(), name) {
			text := fmt.Sprintf("--fail-on: there is no code %q", name)
			if n := config.Nearest(name, codeNames()); n != "" {
				text += fmt.Sprintf(" (did you mean %s?)", n)
			}
			return nil, fmt.Errorf("%s; there are %s", text, strings.Join(codeNames(), ", "))
		}
		codes = append(codes, lint.Code(name))
	}
	return codes, nil
}

// lint asks for findings, and reads the finalizers of the deletions that are stuck.
func (a *asker) lint(ctx context.Context, o report.LintOptions) (l report.Lint, err error) {
	query := url.Values{"limit": {strconv.Itoa(o.Limit)}, "namespace": {o.Namespace}}
	err = a.ask(ctx, "lint", query, &l, func(r *listing.Result, b report.Basis) error {
		l = report.NewLint(lint.Input{
			Graph: r.Graph, View: r.Graph.View, Now: r.Now, BreaksRings: b.Rules == report.RulesOfReap,
		}, o, b, func(k graph.Key, f *report.Finding) { f.Finalizers = r.Finalizers[k] })
		return nil
	})
	if err == nil && l.Basis.Source == report.FromCollector {
		err = a.server.readStuck(ctx, l.Findings)
	}
	return l, err
}

// readStuck adds to findings about stuck deletions which finalizers the objects have. What
// cannot be read is left out: the finding stands without it.
func (c *connection) readStuck(ctx context.Context, findings []report.Finding) error {
	served, err := newServed(c.config)
	if err != nil {
		return err
	}
	client, err := metadata.NewForConfig(c.config)
	if err != nil {
		return err
	}
	for i := range findings {
		f := &findings[i]
		if f.Code != lint.StuckFinalizer {
			continue
		}
		gvr, err := served.mapper.ResourceFor(schema.GroupVersionResource{Group: f.Object.Group, Resource: f.Object.Resource})
		if err != nil {
			continue
		}
		if o, err := client.Resource(gvr).Namespace(f.Object.Namespace).Get(ctx, f.Object.Name, metav1.GetOptions{}); err == nil {
			f.Finalizers = o.Finalizers
		}
	}
	return ctx.Err()
}

// lintManifests judges files against the cluster.
func (c *connection) lintManifests(ctx context.Context, s selection, o report.LintOptions) (report.Lint, error) {
	set, err := manifest.Load(ctx, s.files, s.recursive)
	if err != nil {
		return report.Lint{}, err
	}
	var objects []*unstructured.Unstructured
	var sources []string
	for _, f := range set.Files {
		for _, o := range f.Objects {
			objects, sources = append(objects, o.Unstructured), append(sources, f.Path)
		}
	}
	r, keys, err := listing.Manifests(ctx, c.config, objects, s.namespace)
	if err != nil {
		return report.Lint{}, c.failed(err)
	}
	source := make(map[graph.Key]string, len(keys))
	for i, k := range keys {
		source[k] = sources[i]
	}
	b := report.Basis{Source: report.FromManifests, Rules: report.RulesOfReap, Note: "the server at " + c.config.Host, Objects: len(objects), Incomplete: append(leftOut(set), gaps(r)...)}
	return report.NewLint(lint.Input{Graph: r.Graph, View: r.Graph.View, Now: r.Now}, report.LintOptions{Limit: o.Limit}, b, func(k graph.Key, f *report.Finding) {
		f.File = source[k]
		if strings.HasPrefix(string(f.Object.UID), lint.NewUID) {
			f.Object.UID = ""
		}
	}), nil
}
