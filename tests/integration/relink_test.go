package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/relink"
	"github.com/reap-dev/reap/pkg/gc/report"
	"github.com/reap-dev/reap/tests/size"
)

// TestRestoredBackupsLoseNoObject: while the collector is paused, objects come back under new UIDs and in any order, their
// references with the UIDs from before; reap relink mends them, and the collector goes on.
func TestRestoredBackupsLoseNoObject(t *testing.T) {
	t.Parallel()
	s := start(t)
	seed := seedOf(t)
	r := rand.New(rand.NewPCG(seed, 0))
	s.must(t, "pause")
	type restored struct {
		k kind
		o *unstructured.Unstructured
	}
	var all []restored
	references := 0
	backups := size.Of(2, 6, 10)
	for b := range backups {
		ns := s.namespace(t, "restored")
		kinds := []kind{configMaps, secrets}
		made := make([]restored, 4+r.IntN(8))
		for i := range made {
			k := kinds[r.IntN(2)]
			o := object(k, fmt.Sprint("x-", i))
			for range r.IntN(3) {
				if i > 0 {
					j := r.IntN(i)
					ref := metav1.OwnerReference{APIVersion: "v1", Kind: made[j].k.kind, Name: made[j].o.GetName(), UID: types.UID(fmt.Sprintf("before-%d-%d", b, j))}
					if !slices.Contains(o.GetOwnerReferences(), ref) {
						o.SetOwnerReferences(append(o.GetOwnerReferences(), ref))
						references++
					}
				}
			}
			made[i] = restored{k, o}
		}
		for _, i := range r.Perm(len(made)) {
			o, err := s.dyn.Resource(made[i].k.gvr).Namespace(ns).Create(t.Context(), made[i].o, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			made[i].o = o
		}
		all = append(all, made...)
	}
	out, errs, code := s.run(t, "relink", "-A", "--yes", "-o", "json")
	var rel report.Relink
	fromJSON(t, out, &rel)
	if code != 0 || rel.Version != report.RelinkVersion || rel.Done != references || rel.Failed+rel.Unneeded+len(rel.Left) > 0 {
		t.Fatalf("exit code %d, %d of %d references relinked: %s\n%s", code, rel.Done, references, out, errs)
	}
	again, _, code := s.run(t, "relink", "-A", "--dry-run")
	if code != 0 || !strings.Contains(again, "no reference of") {
		t.Errorf("a second reap relink: exit code %d, %s", code, again)
	}
	s.must(t, "resume")
	s.barrier(t, configMaps, "default")
	s.barrier(t, secrets, "default")
	await(t, "the collector to have looked at everything", func(context.Context) (bool, any) {
		st := s.status(t)
		return st.Busy == 0 && !slices.ContainsFunc(st.Queues, func(q report.Queue) bool { return q.Length > 0 }), st.Queues
	})
	for _, o := range all {
		s.mustExist(t, o.k, o.o)
	}
	if out, _, code := s.run(t, "lint", "-A", "--fail-on", "dangling,wrong-uid"); code != 0 {
		t.Errorf("reap lint: exit code %d\n%s", code, out)
	}
	size.Power(t, fmt.Sprintf("seed=%d restores=%d objects=%d references=%d lost=0", seed, backups, len(all), references))
}

// TestRelinkAsksFirstAndListsWhatItLeaves: without a yes nothing changes. References whose owner nobody can tell are left, and listed.
func TestRelinkAsksFirstAndListsWhatItLeaves(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.must(t, "pause")
	ns, other := s.namespace(t, "relinked"), s.namespace(t, "other")
	s.create(t, configMaps, ns, "owner")
	held := s.createHeld(t, configMaps, ns, "going")
	s.deleteAs(t, configMaps, held, background)
	elsewhere := s.create(t, secrets, ns, "elsewhere")
	s.create(t, configMaps, ns, "same-words")
	stale := func(name, uid string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: types.UID(uid)}
	}
	child := s.create(t, secrets, ns, "child", stale("owner", "before"), nobody(configMaps))
	s.create(t, secrets, ns, "of-going", stale("going", "before-going"))
	s.create(t, secrets, ns, "of-two", stale("same-words", string(elsewhere.GetUID())))
	s.create(t, configMaps, other, "owner")
	beside := s.create(t, secrets, other, "child", stale("owner", "before"))

	for args, want := range map[string]struct {
		code int
		says string
	}{
		"-n " + ns:                       {2, "--yes"},
		"-n " + ns + " --yes -o jsn":     {2, "did you mean json"},
		"-n " + ns + " --yes x":          {2, "no arguments"},
		"-n " + ns + " --yes -f -":       {1, "cannot be rewritten"},
		"--yes -f " + t.TempDir():        {1, "there is no"},
		"-n " + ns + " --dry-run":        {1, ""},
		"-n " + ns + " --limit=-1 --yes": {2, "--limit"},
	} {
		out, errs, code := s.run(t, append([]string{"relink"}, strings.Fields(args)...)...)
		if code != want.code || !strings.Contains(errs, want.says) {
			t.Errorf("reap relink %s: exit code %d, %s%s", args, code, out, errs)
		}
	}
	s.mustHaveOwners(t, secrets, child, child.GetOwnerReferences()...)

	out, errs, code := s.run(t, "relink", "-n", ns, "--yes", "-o", "json")
	if code != 1 || !strings.Contains(errs, "TO BE RELINKED") || !strings.Contains(errs, "LEFT AS THEY ARE") {
		t.Fatalf("exit code %d, %s%s", code, out, errs)
	}
	var r report.Relink
	fromJSON(t, out, &r)
	reasons := map[string]relink.Reason{}
	for _, l := range r.Left {
		reasons[l.Object.Name+" to "+l.Reference.Name] = l.Reason
		if l.Text == "" {
			t.Errorf("no text: %+v", l)
		}
	}
	want := map[string]relink.Reason{"child to never-was": relink.Missing, "of-going to going": relink.BeingDeleted, "of-two to same-words": relink.Elsewhere}
	if fmt.Sprint(reasons) != fmt.Sprint(want) || r.Done != 1 || len(r.Links) != 1 || r.Links[0].Result != report.LinkDone || r.Links[0].Object.Name != "child" {
		t.Errorf("%+v", r)
	}
	s.mustHaveOwners(t, secrets, beside, beside.GetOwnerReferences()...) // in another namespace
	if out, errs, code := s.run(t, "relink", "-n", other, "--yes"); code != 0 || !strings.Contains(out, "1 reference relinked, 0 left") {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
}

// TestRelinkOfFiles rewrites the UIDs in manifests and nothing else, to owners that are in the cluster already.
func TestRelinkOfFiles(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "files")
	dir := t.TempDir()
	const middle = `# a comment
apiVersion: v1
kind: List
items:
- {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "first", "annotations": {"name": "é"}, "ownerReferences": [{"uid": "before", "apiVersion": "v1", "kind": "ConfigMap", "name": "top"}]}}
---
apiVersion: v1
kind: Secret
metadata:
    name: middle
    uid: before-middle
    ownerReferences:   # of which one is nobody's
    - apiVersion: v1
      kind: ConfigMap
      name: top
      uid: before # it was another one
`
	const leaf = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "leaf",
  "ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "middle", "uid": "before-middle"}]}}`
	files := map[string]string{"middle.yaml": middle, "leaf.json": leaf, "notes.txt": "no manifest"}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	k := s.kubectlIn(t, ns)
	top := s.create(t, configMaps, ns, "top")

	out, _, code := s.run(t, "relink", "-f", dir, "-n", ns, "--dry-run", "-o", "json")
	var r report.Relink
	fromJSON(t, out, &r)
	if code != 1 || !r.DryRun || len(r.Links) != 2 || len(r.Left) != 1 || r.Left[0].Reason != relink.NotCreated || read("middle.yaml") != middle {
		t.Fatalf("exit code %d, %s", code, out)
	}
	out, errs, code := s.run(t, "relink", "-f", dir, "-n", ns, "--yes")
	if code != 1 || !strings.Contains(out, "2 references relinked, 1 left") {
		t.Fatalf("exit code %d, %s%s", code, out, errs)
	}
	uid := string(top.GetUID())
	want := strings.NewReplacer(`"uid": "before"`, `"uid": "`+uid+`"`, "uid: before #", "uid: "+uid+" #").Replace(middle)
	if got := read("middle.yaml"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if info, err := os.Stat(filepath.Join(dir, "middle.yaml")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	k("", "apply", "-f", filepath.Join(dir, "middle.yaml"))
	out, errs, code = s.run(t, "relink", "-f", filepath.Join(dir, "leaf.json"), "-n", ns, "--yes")
	if code != 0 || !strings.Contains(out, "1 reference relinked, 0 left") {
		t.Fatalf("exit code %d, %s%s", code, out, errs)
	}
	k("", "apply", "-f", filepath.Join(dir, "leaf.json"))
	s.barrier(t, configMaps, ns)
	s.barrier(t, secrets, ns)
	if n, m := s.count(t, configMaps, ns), s.count(t, secrets, ns); n != 3 || m != 1 {
		t.Errorf("%d config maps, %d secrets are left of what was applied", n, m)
	}
}
