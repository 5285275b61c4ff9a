package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/reap-dev/reap/pkg/gc/report"
	"github.com/reap-dev/reap/pkg/manifest"
)

// leftOutShown is how many files are named that were left out.
const leftOutShown = 3

// leftOut says which files of folders were not read. The answer is incomplete without them: kubectl would apply them.
func leftOut(set manifest.Set) []report.Gap {
	if len(set.LeftOut) == 0 {
		return nil
	}
	var named []string
	for _, l := range set.LeftOut[:min(len(set.LeftOut), leftOutShown)] {
		named = append(named, fmt.Sprintf("%s (%s)", l.Path, l.Why))
	}
	text := strings.Join(named, ", ")
	if more := len(set.LeftOut) - leftOutShown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return []report.Gap{{
		What: plural(len(set.LeftOut), "file"),
		Why:  "left out: " + text + "; of a folder only regular files in it are read; name a link with --filename to have its target read",
	}}
}

// addFiles adds the objects that files name to those that a builder looks up, and returns an error about files that were left out.
// The builder gets nothing but names and labels: its errors may quote what it gets.
func addFiles(ctx context.Context, b *resource.Builder, s selection) (missing, err error) {
	if len(s.files) == 0 {
		return nil, nil
	}
	set, err := manifest.Load(ctx, s.files, s.recursive)
	if err != nil {
		return nil, err
	}
	for _, f := range set.Files {
		var text bytes.Buffer
		for _, o := range f.Objects {
			named := metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{APIVersion: o.GetAPIVersion(), Kind: o.GetKind()},
				ObjectMeta: metav1.ObjectMeta{Name: o.GetName(), Namespace: o.GetNamespace(), Labels: o.GetLabels()},
			}
			if err := json.NewEncoder(&text).Encode(named); err != nil {
				return nil, fmt.Errorf("reading manifests: %s: %w", f.Path, err)
			}
		}
		b.Stream(&text, f.Path)
	}
	for _, gap := range leftOut(set) {
		missing = errors.New(gap.What + " " + gap.Why)
	}
	return missing, nil
}
