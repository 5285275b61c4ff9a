package manifest

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"go.yaml.in/yaml/v3"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// edit replaces a piece of the text.
type edit struct {
	piece
	text string
}

// changes are the new UIDs that an object's references get.
type changes map[graph.Reference]types.UID

// ErrNotInText: a UID can be written in ways that have no text of their own, such as an alias or escapes.
var ErrNotInText = errors.New("the reference's uid has no text of its own (it is written with escapes or an alias, or the file is not UTF-8); rewrite it by hand")

// errReadsOtherwise prevents a file from being written.
var errReadsOtherwise = errors.New("with the new UIDs the file would not read as the same objects; rewrite it by hand")

// SetOwnerUID gives another UID to every reference that is equal to ref; Write changes the file. Unstructured stays as it was read.
// If the error is ErrNotInText, nothing has been changed.
func (o Object) SetOwnerUID(ref graph.Reference, uid types.UID) error {
	refs := o.GetOwnerReferences()
	n := o.File.nodesOf(o.in)
	if o.File.encoded && o.File.mark == nil || n == nil || len(n.objects) != o.of {
		return ErrNotInText
	}
	all := field(field(n.objects[o.index], "metadata"), "ownerReferences")
	if all == nil || all.Kind != yaml.SequenceNode || len(all.Content) != len(refs) {
		return ErrNotInText
	}
	var edits []edit
	for i := range refs {
		if graph.ReferenceOf(refs[i]) != ref {
			continue
		}
		at, found := n.find(field(all.Content[i], "uid"), string(refs[i].UID))
		if !found {
			return ErrNotInText
		}
		edits = append(edits, edit{at, string(uid)})
	}
	for _, e := range edits {
		o.File.edits[e.from] = e
	}
	o.changes[ref] = uid
	return nil
}

// changed returns the object as it reads with its changes.
func (o Object) changed() *unstructured.Unstructured {
	if len(o.changes) == 0 {
		return o.Unstructured
	}
	u := o.DeepCopy()
	refs := u.GetOwnerReferences()
	written, _, _ := unstructured.NestedFieldNoCopy(u.Object, "metadata", "ownerReferences")
	all, _ := written.([]any) // as many as refs: SetOwnerUID has compared them
	for i := range refs {
		if uid, is := o.changes[graph.ReferenceOf(refs[i])]; is {
			if r, ok := all[i].(map[string]any); ok {
				r["uid"] = string(uid)
			}
		}
	}
	return u
}

// Write replaces the file by one with the changes, if there are any. It is an error if the file has changed since it was read.
func (f *File) Write() error {
	if len(f.edits) == 0 {
		return nil
	}
	var changed []byte
	at := 0
	for _, from := range slices.Sorted(maps.Keys(f.edits)) {
		e := f.edits[from]
		changed = append(append(changed, f.text[at:e.from]...), e.text...)
		at = e.to
	}
	changed = append(changed, f.text[at:]...)
	if !f.readsAs(changed) {
		return errReadsOtherwise
	}
	return f.replaceBy(changed)
}

// readsAs reports whether a text has the objects of the file with their changes, and nothing else. The places of edits come from
// another parser than the objects.
func (f *File) readsAs(text []byte) bool {
	objects, err := (&File{Path: f.Path, text: text}).decode(context.Background())
	return err == nil && slices.EqualFunc(objects, f.Objects, func(now, was Object) bool {
		return reflect.DeepEqual(now.Object, was.changed().Object)
	})
}

// replaceBy puts a text in the place of the file's.
func (f *File) replaceBy(text []byte) error {
	path, err := filepath.EvalSymlinks(f.Path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	present, err := open(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(present, slices.Concat(f.mark, f.text)) {
		return errors.New("the file has changed since it was read; try again")
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".relink-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) // which fails once it has been renamed
	_, err = temporary.Write(slices.Concat(f.mark, text))
	err = errors.Join(err, temporary.Chmod(info.Mode().Perm()), temporary.Sync(), temporary.Close())
	if err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
