package manifest

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

// byKubectl reads a file as kubectl apply --dry-run=client does.
func byKubectl(path string) (all []*unstructured.Unstructured, err error) {
	err = resource.NewLocalBuilder().Unstructured().Flatten().
		FilenameParam(false, &resource.FilenameOptions{Filenames: []string{path}}).
		Do().Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		all = append(all, info.Object.(*unstructured.Unstructured))
		return nil
	})
	return all, err
}

const (
	jsonA = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "old"}]}}`
	jsonB = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "old"}]}}`
	yamlA = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  ownerReferences:\n  - {apiVersion: v1, kind: Pod, name: p, uid: old} # why\n"
	yamlB = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n  ownerReferences:\n  - {apiVersion: v1, kind: Pod, name: p, uid: old}\n"
)

// texts are files as users have them, in order and not.
var texts = map[string]string{
	"one in JSON":                     jsonA,
	"two in JSON, glued":              jsonA + jsonB,
	"two in JSON, by lines":           jsonA + "\n" + jsonB + "\n",
	"three in JSON":                   "\n\n " + jsonA + " \n\n" + jsonB + "\t" + strings.Replace(jsonA, `"a"`, `"c"`, 1),
	"indented by tabs":                strings.ReplaceAll(strings.ReplaceAll(jsonA, "{", "{\n\t"), ", ", ",\n\t"),
	"two in JSON, separated":          jsonA + "\n---\n" + jsonB,
	"three in JSON, separated":        "---\n" + jsonA + "\n---\n" + jsonB + "\n---\n" + jsonA + "\n---\n",
	"glued, then separated":           jsonA + jsonB + "\n---\n" + jsonB,
	"separated, then glued":           jsonA + "\n---\n" + jsonB + jsonB,
	"JSON, then YAML":                 jsonA + "\n---\n" + yamlB,
	"YAML, then JSON":                 yamlA + "---\n" + jsonB,
	"YAML, then two in JSON":          yamlA + "---\n" + jsonA + "\n" + jsonB,
	"JSON, then garbage":              jsonA + "garbage",
	"JSON, then null":                 jsonA + " null " + jsonB,
	"JSON, cut":                       jsonA + jsonB[:40],
	"JSON, and two fields of a name":  strings.Replace(jsonA, `"name": "a"`, `"name": "x", "name": "a"`, 1),
	"JSON with surrogates":            strings.Replace(jsonA, `"a"`, `"\ud83d\ude00"`, 1),
	"JSON with a comma too many":      strings.Replace(jsonA, "}]", "},]", 1),
	"a flow mapping":                  "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
	"flow mappings, separated":        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}",
	"two in YAML":                     yamlA + "---\n" + yamlB,
	"documents without anything":      "---\n---\n# nothing\n---\n" + yamlA + "---\n\n---\nnull\n--- # b\n" + yamlB + "---",
	"text after a separator":          yamlA + "--- " + jsonB,
	"an end of a document":            yamlA + "...\n" + yamlB,
	"a directive":                     "%YAML 1.1\n---\n" + yamlA,
	"Windows' line ends":              strings.ReplaceAll(yamlA+"---\n"+yamlB, "\n", "\r\n"),
	"a byte order mark":               "\ufeff" + yamlA,
	"a byte order mark before JSON":   "\ufeff" + jsonA + jsonB,
	"UTF-16":                          "\xff\xfe" + strings.Join(strings.Split(yamlA, ""), "\x00") + "\x00",
	"not UTF-8":                       strings.Replace(yamlA, "why", "\xff\xfe", 1),
	"numbers as keys":                 "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {22: \"default/shell:22\", true: b, 1.5: c}\n",
	"YAML 1.1":                        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: yes, b: 0o17, c: 017, d: 1_000, e: 12:30, f: ~, g: 2001-01-01, h: 1e3, i: .inf}\n",
	"numbers":                         "apiVersion: v1\nkind: A\nmetadata: {name: a}\nspec: {a: 9007199254740993, b: 1.0, c: 1e400, d: -0}\n",
	"large numbers in JSON":           `{"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}, "spec": {"a": 9007199254740993, "b": 123456789012345678901, "c": 1e400}}`,
	"an anchor":                       "apiVersion: v1\nkind: A\nmetadata: {name: a, labels: &l {a: b}}\nspec: {l: *l, m: {<<: *l, c: d}}\n",
	"an alias to nothing":             "apiVersion: v1\nkind: A\nmetadata: {name: *b}\n",
	"a list":                          "apiVersion: v1\nkind: List\nitems:\n- " + jsonA + "\n- " + jsonB + "\n",
	"a list in JSON":                  `{"apiVersion": "v1", "kind": "List", "items": [` + jsonA + `,` + jsonB + `]}`,
	"a list of a kind":                "apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: a}\n- {metadata: {name: b}, apiVersion: v1, kind: Secret}\n",
	"a list in a list":                `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "List", "items": []}]}`,
	"a list of an item without kind":  "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1}\n",
	"a list of an item of no version": "apiVersion: v1\nkind: List\nitems:\n- {kind: A}\n",
	"a list of scalars":               "apiVersion: v1\nkind: List\nitems: [1, null]\n",
	"a list that is none":             "apiVersion: v1\nkind: List\nitems: {a: b}\n",
	"a list of nothing":               yamlA + "---\napiVersion: v1\nkind: List\nitems: []\n",
	"a list of null":                  yamlA + "---\napiVersion: v1\nkind: List\nitems: null\n",
	"no kind":                         "apiVersion: v1\nmetadata: {name: a}\n",
	"a kind that is a number":         "apiVersion: v1\nkind: 5\nmetadata: {name: a}\n",
	"no apiVersion":                   "kind: A\nmetadata: {name: a}\n",
	"a scalar":                        yamlA + "---\nhello\n",
	"a sequence":                      "- " + jsonA + "\n",
	"a sequence in JSON":              "[" + jsonA + "]",
	"labels that are numbers":         "apiVersion: v1\nkind: A\nmetadata: {name: a, labels: {a: 5}}\n",
	"metadata that is a list":         "apiVersion: v1\nkind: A\nmetadata: []\n",
	"references that are none":        "apiVersion: v1\nkind: A\nmetadata: {name: a, ownerReferences: [5]}\n",
	"a time that is none":             "apiVersion: v1\nkind: A\nmetadata: {name: a, creationTimestamp: today}\n",
	"tabs":                            "apiVersion: v1\nkind: A\nmetadata:\n\tname: a\n",
	"fields twice":                    yamlA + "kind: Secret\n",
	"a key that is a mapping":         "apiVersion: v1\nkind: A\n? {a: b}\n: c\n",
	"more white space than is seen":   strings.Repeat(" ", lookahead) + jsonA + jsonB,
	"a long document":                 yamlA + "data:\n  a: " + strings.Repeat("x", 3*lookahead) + "\n---\n" + yamlB,
	"long JSON documents":             strings.Replace(jsonA, "}]}}", "}]}, \"data\": {\"a\": \""+strings.Repeat("x", 3*lookahead)+"\"}}", 1) + jsonB,
}

// TestFilesReadAsKubectlReadsThem: the same objects in the same order, and an error where kubectl has one.
func TestFilesReadAsKubectlReadsThem(t *testing.T) {
	for name, text := range texts {
		path := filepath.Join(t.TempDir(), "file.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		want, refused := byKubectl(path)
		set, err := Load(t.Context(), []string{path}, false)
		if (err != nil) != (refused != nil) {
			t.Errorf("%s: %v, and kubectl's error is %v", name, err, refused)
			continue
		}
		if err != nil {
			continue
		}
		got := set.Files[0].Objects
		if len(got) != len(want) {
			t.Errorf("%s: %d objects, and kubectl has %d", name, len(got), len(want))
			continue
		}
		for i := range got {
			if !reflect.DeepEqual(got[i].Object, want[i].Object) {
				t.Errorf("%s: %v, and kubectl has %v", name, got[i].Object, want[i].Object)
			}
		}
	}
}

// TestFilesOfSeveralDocumentsAreRewritten: each reference gets its UID, wherever its document stands, and nothing else changes.
func TestFilesOfSeveralDocumentsAreRewritten(t *testing.T) {
	rewritten := 0
	for name, text := range texts {
		path := filepath.Join(t.TempDir(), "file.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		set, err := Load(t.Context(), []string{path}, false)
		if err != nil || !strings.Contains(text, "uid") || name == "not UTF-8" {
			continue
		}
		f, references := set.Files[0], 0
		for _, o := range f.Objects {
			for _, ref := range o.GetOwnerReferences() {
				if err := o.SetOwnerUID(graph.ReferenceOf(ref), "new-uid"); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				references++
			}
		}
		rewritten += references
		if err := f.Write(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		now, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// What kubectl passes over stays: it stands last.
		left := references
		want := regexp.MustCompile(`(uid"?: "?)old`).ReplaceAllStringFunc(text, func(s string) string {
			if left--; left < 0 {
				return s
			}
			return strings.TrimSuffix(s, "old") + "new-uid"
		})
		if string(now) != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, now, want)
		}
	}
	if rewritten < 30 {
		t.Errorf("only %d references were rewritten", rewritten)
	}
}

// TestRewritingOtherEncodingsIsRefused: such a file stays as it is.
func TestRewritingOtherEncodingsIsRefused(t *testing.T) {
	for _, name := range []string{"not UTF-8", "UTF-16"} {
		path := filepath.Join(t.TempDir(), "file.yaml")
		if err := os.WriteFile(path, []byte(texts[name]), 0o600); err != nil {
			t.Fatal(err)
		}
		set, err := Load(t.Context(), []string{path}, false)
		if err != nil {
			t.Fatal(err)
		}
		o := set.Files[0].Objects[0]
		if err := o.SetOwnerUID(graph.ReferenceOf(o.GetOwnerReferences()[0]), "new"); err != ErrNotInText {
			t.Errorf("%s: %v", name, err)
		}
	}
}
