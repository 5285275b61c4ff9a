package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/listing"
	"github.com/reap-dev/reap/pkg/gc/relink"
	"github.com/reap-dev/reap/pkg/gc/report"
)

// relinkFiles finds out what to rewrite in manifests.
func (c *connection) relinkFiles(ctx context.Context, s selection) (relinking, error) {
	var files []*manifestFile
	var objects []*unstructured.Unstructured
	var from []manifestObject
	paths, err := manifestPaths(s.files, s.recursive)
	if err != nil {
		return relinking{}, err
	}
	for _, path := range paths {
		f, err := readManifest(path)
		if err != nil {
			return relinking{}, err
		}
		files = append(files, f)
		for _, o := range f.objects {
			objects, from = append(objects, o.object), append(from, o)
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
	at := make(map[graph.Key]manifestObject, len(keys))
	for i, k := range keys {
		at[k] = from[i]
	}
	rel := relinking{report: report.NewRelink(plan, report.Scope{Judged: judged(in)}, b, func(k graph.Key) string { return at[k].file.path })}
	rel.apply = func(context.Context) error {
		links := rel.report.Links
		byFile := map[*manifestFile][]int{} // the links of each
		for _, level := range plan.Levels {
			for _, change := range level {
				o := at[change.Object.Key]
				for _, l := range change.Links {
					i := len(rel.report.Links) - len(links)
					links = links[1:]
					if err := o.rewrite(l); err != nil {
						rel.report.Links[i].Result, rel.report.Links[i].Error = report.LinkFailed, err.Error()
						continue
					}
					byFile[o.file] = append(byFile[o.file], i)
				}
			}
		}
		for _, f := range files {
			err := f.write()
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
	for _, name := range names {
		if name == "-" || strings.Contains(name, "://") {
			return nil, fmt.Errorf("%s cannot be rewritten: --filename takes files and directories", name)
		}
		info, err := os.Stat(name)
		if err != nil {
			return nil, fmt.Errorf("reading manifests: %w", err)
		}
		if !info.IsDir() {
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

// manifestFile is a file of manifests. Its text is changed in place, so that comments and the order of fields stay.
type manifestFile struct {
	path    string
	text    []byte // as it was read
	objects []manifestObject
	edits   []edit
}

// edit is a piece of the text that another one takes the place of.
type edit struct {
	from, to int
	text     string
}

// manifestObject is one object in a file.
type manifestObject struct {
	file   *manifestFile
	object *unstructured.Unstructured
	node   *yaml.Node
}

func readManifest(path string) (*manifestFile, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	f := &manifestFile{path: path, text: raw}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	for {
		var doc yaml.Node
		switch err := d.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return f, nil
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		if len(doc.Content) == 1 && doc.Content[0].Kind == yaml.MappingNode {
			if err := f.add(doc.Content[0]); err != nil {
				return nil, fmt.Errorf("reading %s: %w", path, err)
			}
		}
	}
}

// add notes an object, or those of a list.
func (f *manifestFile) add(n *yaml.Node) error {
	var fields map[string]any
	if err := n.Decode(&fields); err != nil {
		return err
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		return err
	}
	items := field(n, "items")
	if !u.IsList() || items == nil || items.Kind != yaml.SequenceNode {
		f.objects = append(f.objects, manifestObject{f, u, n})
		return nil
	}
	for _, item := range items.Content {
		if err := f.add(item); err != nil {
			return err
		}
	}
	return nil
}

// field returns the value of a mapping's field, or nil.
func field(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// rewrite puts the present UID of an owner into every reference that a link is about.
func (o manifestObject) rewrite(l relink.Link) error {
	refs := o.object.GetOwnerReferences()
	all := field(field(o.node, "metadata"), "ownerReferences")
	if all == nil || all.Kind != yaml.SequenceNode || len(all.Content) != len(refs) {
		return errNotInText
	}
	for i, ref := range refs {
		if graph.ReferenceOf(ref) != l.Reference {
			continue
		}
		if err := o.file.replace(field(all.Content[i], "uid"), string(l.Owner.Key.UID)); err != nil {
			return err
		}
	}
	return nil
}

// replace puts another text in the place of a scalar's.
func (f *manifestFile) replace(n *yaml.Node, text string) error {
	from := -1
	if n != nil && n.Kind == yaml.ScalarNode {
		from = f.offset(n.Line, n.Column)
	}
	if from < 0 {
		return errNotInText
	}
	rest := f.text[from:]
	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 && len(rest) > 0 {
		from, rest = from+1, rest[1:]
	}
	if n.Value == "" || !bytes.HasPrefix(rest, []byte(n.Value)) {
		return errNotInText // it is an alias, or written with escapes
	}
	// The same reference may stand there twice, and then each of the two is rewritten for both.
	if e := (edit{from, from + len(n.Value), text}); !slices.Contains(f.edits, e) {
		f.edits = append(f.edits, e)
	}
	return nil
}

var errNotInText = errors.New("the reference's uid cannot be found in the text; rewrite it by hand")

// offset returns where a character is, counted from 1, or -1.
func (f *manifestFile) offset(line, column int) int {
	at := 0
	for range line - 1 {
		n := bytes.IndexByte(f.text[at:], '\n')
		if n < 0 {
			return -1
		}
		at += n + 1
	}
	for range column - 1 {
		_, size := utf8.DecodeRune(f.text[at:])
		if size == 0 {
			return -1
		}
		at += size
	}
	return at
}

// write replaces the file, if anything in it is to change, and if nobody has changed it since it was read.
func (f *manifestFile) write() error {
	if len(f.edits) == 0 {
		return nil
	}
	path, err := filepath.EvalSymlinks(f.path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	present, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(present, f.text) {
		return errors.New("the file has changed since it was read; try again")
	}
	slices.SortFunc(f.edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	var changed []byte
	at := 0
	for _, e := range f.edits {
		changed = append(append(changed, f.text[at:e.from]...), e.text...)
		at = e.to
	}
	changed = append(changed, f.text[at:]...)
	temporary, err := os.CreateTemp(filepath.Dir(path), ".relink-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) // which fails once it has been renamed
	_, err = temporary.Write(changed)
	err = errors.Join(err, temporary.Chmod(info.Mode().Perm()), temporary.Sync(), temporary.Close())
	if err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
