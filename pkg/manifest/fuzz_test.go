package manifest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// FuzzManifest reads anything as kubectl does, and rewrites every reference of what reads as manifests. The result reads as the same
// objects, with the new UIDs where a rewrite has said that it was done, and nothing else changed.
func FuzzManifest(f *testing.F) {
	for _, s := range []string{
		"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  ownerReferences:\n  - {apiVersion: v1, kind: Pod, name: b, uid: old} # why\n",
		// The same reference twice, and UIDs in every style.
		"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  ownerReferences:\n  - {apiVersion: v1, kind: Pod, name: b, uid: old}\n  - {apiVersion: v1, kind: Pod, name: b, uid: old}\n",
		"{apiVersion: v1, kind: A, metadata: {ownerReferences: [{uid: \"o\\u006cd\"}, {uid: 'o''d'}, {uid: !!str old}, {uid: &a old}, {uid: *a}, {uid: 5}, {}]}}\n",
		"apiVersion: v1\nkind: A\nmetadata:\n  ownerReferences:\n  - uid: |\n      old\n  - uid: >-\n      o\n      d\n  - uid: o\n      d\n",
		// Lists, anchors, merged maps, documents.
		"apiVersion: v1\nkind: List\nitems:\n- &a {apiVersion: v1, kind: A, metadata: {ownerReferences: &r [{uid: old}]}}\n- *a\n- {apiVersion: v1, kind: B, metadata: {ownerReferences: *r}}\n",
		"apiVersion: v1\nkind: A\nmetadata: {ownerReferences: &r [{uid: old}]}\nelsewhere: *r\n",
		"---\n---\n# nothing\n---\nkind: A\napiVersion: v1\nmetadata: {<<: {ownerReferences: [{uid: x}]}, name: é}\n---\n{\"kind\":\"A\",\"apiVersion\":\"v1\",\"metadata\":{\"ownerReferences\":[{\"uid\":\"x\"}]}}\n",
		"apiVersion: v1\r\nkind: A\r\nmetadata:\r\n  name: äö\r\n  ownerReferences: [{name: \"日本\", uid: old}, {uid: old}]\r\n", "\ufeffkind: A\napiVersion: v1\nmetadata: {ownerReferences: [{uid: x}]}\n",
		"kind: A\rapiVersion: v1\u2028metadata: {ownerReferences: [{uid: x}]}", "[1]", "a", "kind: &a [*a]\n", "kind: A\nitems: 5\n", "kind: AList\nitems: [5, null, {}]\n", "\xff",
		"kind: A\nmetadata: {ownerReferences: [5, {uid: x}]}\n", "kind: A\nmetadata: {ownerReferences: {uid: x}}\n", "kind: A\n? {a: b}\n: c\n", "1: 2\nkind: A\n",
		// Several JSON documents, escapes, fields that are there twice, other encodings, and what only looks like a separator.
		`{"kind":"A","apiVersion":"v1","metadata":{"ownerReferences":[{"uid":"x"}]}}{"kind":"B","apiVersion":"v1","metadata":{"name":"\ud83d\ude00","ownerReferences":[{"uid":"x"}]}}`,
		"{\"kind\":\"A\",\"apiVersion\":\"v1\"}\n---\nkind: B\napiVersion: v1\nmetadata: {ownerReferences: [{uid: x, uid: y}]}\n",
		"\xff\xfek\x00i\x00n\x00d\x00:\x00 \x00A\x00", "kind: A\nmetadata: {name: \xff, ownerReferences: [{uid: x}]}\n",
		"kind: A\n---x\nkind: B\n", "kind: A\n...\nkind: B\n", "%YAML 1.1\n---\nkind: A\n", "--- # a\nkind: A\n--- \n---\nkind: B",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "manifest.yaml")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		load := func() (*File, error) {
			set, err := Load(t.Context(), []string{path}, false)
			if err != nil {
				return nil, err
			}
			return set.Files[0], nil
		}
		m, err := load()
		byKubectl, refused := byKubectl(path)
		if (err == nil) != (refused == nil && len(byKubectl) > 0) {
			t.Fatalf("%v, and kubectl has %d objects and %v", err, len(byKubectl), refused)
		}
		if err != nil {
			return
		}
		if !slices.EqualFunc(m.Objects, byKubectl, func(o Object, u *unstructured.Unstructured) bool { return reflect.DeepEqual(o.Object, u.Object) }) {
			t.Fatalf("%v, and kubectl has %v", m.Objects, byKubectl)
		}
		var want [][]metav1.OwnerReference // of each object
		for i, o := range m.Objects {
			refs := o.GetOwnerReferences()
			want = append(want, refs)
			for j, ref := range refs {
				uid := types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", 100*i+j))
				// One call changes all references that are equal.
				for k := range j {
					if graph.ReferenceOf(refs[k]) == graph.ReferenceOf(ref) {
						uid = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", 100*i+k))
						break
					}
				}
				before := len(m.edits)
				err := o.SetOwnerUID(graph.ReferenceOf(ref), uid)
				if err != nil && (!errors.Is(err, ErrNotInText) || len(m.edits) > before) {
					t.Errorf("rewriting %+v: %v, with %d edits", ref, err, len(m.edits)-before)
				}
			}
		}
		objects := len(m.Objects)
		switch err := m.Write(); {
		case errors.Is(err, errReadsOtherwise):
			t.Logf("refused: %q", text)
			return
		case err != nil:
			t.Fatal(err)
		}
		edited := len(m.edits) > 0
		after, err := load()
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if len(after.Objects) != objects {
			t.Fatalf("%d objects became %d", objects, len(after.Objects))
		}
		changed := false
		for i, o := range after.Objects {
			refs := o.GetOwnerReferences()
			if len(refs) != len(want[i]) {
				t.Fatalf("%d references became %d", len(want[i]), len(refs))
			}
			for j := range refs {
				if refs[j].UID != want[i][j].UID {
					changed = true
					refs[j].UID = want[i][j].UID
				}
			}
			if !reflect.DeepEqual(refs, want[i]) {
				t.Errorf("more than UIDs has changed: %+v, was %+v", refs, want[i])
			}
			o.SetOwnerReferences(nil)
			m.Objects[i].SetOwnerReferences(nil)
			if !reflect.DeepEqual(o.Object, m.Objects[i].Object) {
				t.Errorf("more than references has changed: %v, was %v", o.Object, m.Objects[i].Object)
			}
		}
		if changed && !edited {
			t.Error("something has changed without an edit")
		}
	})
}
