package cli

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/listing"
	"github.com/reap-dev/reap/pkg/gc/relink"
	"github.com/reap-dev/reap/pkg/gc/report"
	"github.com/reap-dev/reap/pkg/manifest"
)

// relinkFiles finds out what to rewrite in manifests.
func (c *connection) relinkFiles(ctx context.Context, s selection) (relinking, error) {
	for _, name := range s.files {
		if name == "-" || manifest.IsURL(name) {
			return relinking{}, fmt.Errorf("%s cannot be rewritten: --filename takes files and folders", name)
		}
	}
	set, err := manifest.Load(ctx, s.files, s.recursive)
	if err != nil {
		return relinking{}, err
	}
	var objects []*unstructured.Unstructured
	var from []manifest.Object
	for _, f := range set.Files {
		for _, o := range f.Objects {
			objects, from = append(objects, o.Unstructured), append(from, o)
		}
	}
	r, keys, err := listing.Manifests(ctx, c.config, objects, s.namespace)
	if err != nil {
		return relinking{}, c.failed(err)
	}
	in := relink.Input{Graph: r.Graph, Now: r.Now}
	plan, err := c.resolve(ctx, in)
	if err != nil {
		return relinking{}, err
	}
	b := report.Basis{Source: report.FromManifests, Rules: report.RulesOfReap, Note: "the server at " + c.config.Host, Objects: len(objects), Incomplete: append(leftOut(set), gaps(r)...)}
	at := make(map[graph.Key]manifest.Object, len(keys))
	for i, k := range keys {
		at[k] = from[i]
	}
	rel := relinking{report: report.NewRelink(plan, report.Scope{Judged: judged(in)}, b, func(k graph.Key) string { return at[k].File.Path })}
	rel.apply = func(context.Context) error {
		links := rel.report.Links
		byFile := map[*manifest.File][]int{} // the links of each
		for _, level := range plan.Levels {
			for _, change := range level {
				o := at[change.Object.Key]
				for _, l := range change.Links {
					i := len(rel.report.Links) - len(links)
					links = links[1:]
					if err := o.SetOwnerUID(l.Reference, l.Owner.Key.UID); err != nil {
						rel.report.Links[i].Result, rel.report.Links[i].Error = report.LinkFailed, err.Error()
						continue
					}
					byFile[o.File] = append(byFile[o.File], i)
				}
			}
		}
		for _, f := range set.Files {
			err := f.Write()
			for _, i := range byFile[f] {
				rel.report.Links[i].Result = report.LinkDone
				if err != nil {
					rel.report.Links[i].Result, rel.report.Links[i].Error = report.LinkFailed, err.Error()
				}
			}
		}
		return nil
	}
	return rel, nil
}
