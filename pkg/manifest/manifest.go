// Package manifest reads files of Kubernetes manifests, and changes the UIDs of ownerReferences in their text, so that comments and the
// order of fields stay.
package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kubeyaml "sigs.k8s.io/yaml"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// File is a file of manifests. It is for one goroutine at a time.
type File struct {
	Path    string
	Objects []Object // those of lists too, in the order of the text
	text    []byte   // as it was read
	edits   []edit   // that Write makes
	// aliased are the nodes that an alias says once more: a change of their text would be one of something else too.
	aliased map[*yaml.Node]bool
}

// edit replaces a piece of the text.
type edit struct {
	from, to int
	text     string
}

// Object is one object in a file.
type Object struct {
	*unstructured.Unstructured
	File *File
	node *yaml.Node
}

// Read reads the manifests in a file, YAML or JSON. Documents that are no mapping are passed over. The error says what was read.
func Read(path string) (*File, error) {
	raw, err := readRegular(path)
	if err != nil {
		return nil, err
	}
	f := &File{Path: path, text: raw, aliased: map[*yaml.Node]bool{}}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	for {
		var doc yaml.Node
		switch err := d.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return f, nil
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		f.noteAliased(&doc)
		if len(doc.Content) == 1 && doc.Content[0].Kind == yaml.MappingNode {
			if err := f.add(doc.Content[0]); err != nil {
				return nil, fmt.Errorf("reading %s: %w", path, err)
			}
		}
	}
}

// add notes an object, or those of a list.
func (f *File) add(n *yaml.Node) error {
	var fields any
	if err := n.Decode(&fields); err != nil {
		return err
	}
	// Without aliases, and then by kubectl's own conversion, which takes numbers as keys.
	plain, err := yaml.Marshal(fields)
	if err != nil {
		return err
	}
	raw, err := kubeyaml.YAMLToJSON(plain)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		return WithoutContent(err)
	}
	items := field(n, "items")
	if !u.IsList() || items == nil || items.Kind != yaml.SequenceNode {
		f.Objects = append(f.Objects, Object{u, f, n})
		return nil
	}
	for _, item := range items.Content {
		if err := f.add(item); err != nil {
			return err
		}
	}
	return nil
}

// noteAliased notes what the aliases below a node stand for.
func (f *File) noteAliased(n *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		f.markAliased(n.Alias)
	}
	for _, below := range n.Content {
		f.noteAliased(below)
	}
}

// markAliased notes a node and all below it.
func (f *File) markAliased(n *yaml.Node) {
	if f.aliased[n] {
		return
	}
	f.aliased[n] = true
	for _, below := range n.Content {
		f.markAliased(below)
	}
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

// SetOwnerUID gives another UID to every reference that is equal to ref; Write changes the file. Unstructured stays as it was read.
// The error is ErrNotInText, and other references of the object may have been changed then.
func (o Object) SetOwnerUID(ref graph.Reference, uid types.UID) error {
	refs := o.GetOwnerReferences()
	all := field(field(o.node, "metadata"), "ownerReferences")
	if all == nil || all.Kind != yaml.SequenceNode || len(all.Content) != len(refs) {
		return ErrNotInText
	}
	for i := range refs {
		if graph.ReferenceOf(refs[i]) != ref {
			continue
		}
		if err := o.File.replace(field(all.Content[i], "uid"), string(uid)); err != nil {
			return err
		}
	}
	return nil
}

// replace puts another text in the place of a scalar's.
func (f *File) replace(n *yaml.Node, text string) error {
	from := -1
	if n != nil && n.Kind == yaml.ScalarNode && !f.aliased[n] {
		from = f.offset(n.Line, n.Column)
	}
	if from < 0 {
		return ErrNotInText
	}
	rest := f.text[from:]
	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 && len(rest) > 0 {
		from, rest = from+1, rest[1:]
	}
	if n.Value == "" || !bytes.HasPrefix(rest, []byte(n.Value)) {
		return ErrNotInText // it is written with escapes
	}
	// The same reference may stand there twice, and then each of the two is rewritten for both.
	if e := (edit{from, from + len(n.Value), text}); !slices.Contains(f.edits, e) {
		f.edits = append(f.edits, e)
	}
	return nil
}

// ErrNotInText: YAML can say a UID in ways that have no text of their own, such as an alias or escapes.
var ErrNotInText = errors.New("the reference's uid has no text of its own (it is written with escapes, or with an alias); rewrite it by hand")

// offset returns where a character is, counted from 1, or -1.
func (f *File) offset(line, column int) int {
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

// Write replaces the file by one with the changes, if there are any. It is an error if somebody has changed the file since it was read.
func (f *File) Write() error {
	if len(f.edits) == 0 {
		return nil
	}
	path, err := filepath.EvalSymlinks(f.Path)
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
