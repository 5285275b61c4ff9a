package cli

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/listing"
	"github.com/reap-dev/reap/pkg/gc/relink"
	"github.com/reap-dev/reap/pkg/gc/report"
	"github.com/reap-dev/reap/pkg/manifest"
)

// relinkFiles finds out what to rewrite in manifests.
func (c *connection) relinkFiles(ctx context.Context, s selection) (relinking, error) {
	var files []*manifest.File
	var objects []*unstructured.Unstructured
	var from []manifest.Object
	paths, err := manifestPaths(s.files, s.recursive)
	if err != nil {
		return relinking{}, err
	}
	for _, path := range paths {
		f, err := manifest.Read(path)
		if err != nil {
			return relinking{}, err
		}
		files = append(files, f)
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
	b := report.Basis{Source: report.FromManifests, Rules: report.RulesOfReap, Note: "the server at " + c.config.Host, Objects: len(objects), Incomplete: gaps(r)}
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
		for _, f := range files {
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

// manifestPaths returns the files that arguments name, and those in the directories among these.
func manifestPaths(names []string, recursive bool) (paths []string, err error) {
	names, err = expand(names)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if name == "-" || strings.Contains(name, "://") {
			return nil, fmt.Errorf("%s cannot be rewritten: --filename takes files and directories", name)
		}
		info, err := os.Stat(name)
		if err != nil {
			return nil, fmt.Errorf("reading manifests: %w", err)
		}
		if !info.IsDir() {
			if err := manifest.CheckFile(name); err != nil {
				return nil, err
			}
			paths = append(paths, name)
			continue
		}
		err = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && path != name && !recursive:
				return filepath.SkipDir
			case !d.IsDir() && slices.Contains(resource.FileExtensions, filepath.Ext(path)):
				if !d.Type().IsRegular() && !linksWithin(name, path, d) {
					return nil
				}
				if err := manifest.CheckFile(path); err != nil {
					return err
				}
				paths = append(paths, path)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading manifests: %w", err)
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("there is no %s file in %s", strings.Join(resource.FileExtensions, ", "), strings.Join(names, ", "))
	}
	return paths, nil
}

// expand replaces patterns by the files that they match, as kubectl does. A name that exists is no pattern.
func expand(names []string) (all []string, err error) {
	for _, name := range names {
		matches := []string{name}
		if _, missing := os.Stat(name); missing != nil && strings.ContainsAny(name, "*?[") {
			if matches, err = filepath.Glob(name); err != nil {
				return nil, fmt.Errorf("reading manifests: %q: %w", name, err)
			}
			if len(matches) == 0 {
				return nil, fmt.Errorf("reading manifests: no file matches %q", name)
			}
		}
		all = append(all, matches...)
	}
	return all, nil
}

// linksWithin reports whether path is a link to something in the folder.
func linksWithin(folder, path string, d fs.DirEntry) bool {
	if d.Type()&fs.ModeSymlink == 0 {
		return false
	}
	root, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return false
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	below, err := filepath.Rel(root, target)
	return err == nil && filepath.IsLocal(below)
}
