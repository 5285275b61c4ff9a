package integration

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/reap-dev/reap/pkg/gc/lint"
	"github.com/reap-dev/reap/pkg/gc/report"
)

// both asks a command of the running collector and from a list, and returns the two answers.
func both[R any](t *testing.T, s *server, code int, args ...string) (fromCollector, fromList R) {
	t.Helper()
	for i, into := range []*R{&fromCollector, &fromList} {
		all := append(slices.Clone(args), "-o", "json", "--server-side="+[]string{"true", "false"}[i])
		out, errs, got := s.run(t, all...)
		if got != code || errs != "" {
			t.Fatalf("reap %s: exit code %d\n%s%s", strings.Join(all, " "), got, out, errs)
		}
		fromJSON(t, out, into)
	}
	return fromCollector, fromList
}

// TestTreeIsShown from the collector's memory and from a list, which say the same.
func TestTreeIsShown(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "tree")
	top := s.create(t, configMaps, ns, "top")
	middle := s.create(t, configMaps, ns, "middle", owner(top))
	s.createMany(t, 12, configMaps, ns, "leaf", owner(middle))
	last := s.createHeld(t, configMaps, ns, "held", owner(middle), owner(top))
	s.awaitKnown(t, configMaps, last)
	s.delete(t, configMaps, last)
	await(t, "the collector to know of the deletion", func(context.Context) (bool, any) {
		w := s.why(t, "cm/held", "-n", ns)
		return w.Reason == "being-deleted", w
	})
	a, b := both[report.Tree](t, s, 0, "tree", "cm/middle", "-n", ns)
	if a.Basis.Source != report.FromCollector || b.Basis.Source != report.FromListing || len(a.Basis.Incomplete)+len(b.Basis.Incomplete) > 0 {
		t.Errorf("%+v, %+v", a.Basis, b.Basis)
	}
	for _, tree := range []report.Tree{a, b} {
		if tree.Version != report.TreeVersion || tree.Count != 15 || len(tree.Nodes) != 15 || len(tree.Asked) != 1 || tree.Asked[0] != middle.GetUID() {
			t.Errorf("%+v", tree)
		}
		for _, n := range tree.Nodes {
			held := n.Object.Name == "held"
			if n.Created.IsZero() || n.Gone || n.DeletedAt.IsZero() == held || slices.Contains(n.Finalizers, hold) != held {
				t.Errorf("%+v", n)
			}
		}
	}
	if all := s.must(t, "tree", "-n", ns); !strings.Contains(all, "└─ configmaps/middle") || !strings.Contains(all, "held by the finalizer "+hold) {
		t.Errorf("of the namespace:\n%s", all)
	}
	if cut := s.must(t, "tree", "cm/top", "-n", ns, "--limit=5"); !strings.Contains(cut, "and 10 more") || !strings.Contains(cut, "15 objects, of which 5 are shown") {
		t.Errorf("cut short:\n%s", cut)
	}
	if dot := s.must(t, "tree", "cm/top", "-n", ns, "-o", "dot"); strings.Count(dot, "->") != 15 {
		t.Errorf("as a graph:\n%s", dot)
	}
}

// TestLintFindsWhatIsWrong from the collector's memory and from a list, which say the same.
func TestLintFindsWhatIsWrong(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "lint")
	if out := s.must(t, "lint", "-n", ns); !strings.Contains(out, "nothing is wrong") {
		t.Errorf("where nothing is wrong: %s", out)
	}
	o := s.create(t, configMaps, ns, "owner")
	odd := s.create(t, configMaps, ns, "odd", metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Nobody", Name: "x", UID: "x"})
	r1 := s.create(t, configMaps, ns, "r1", owner(o))
	r2 := s.create(t, configMaps, ns, "r2", owner(r1))
	r1.SetOwnerReferences(append(r1.GetOwnerReferences(), owner(r2)))
	if _, err := s.dyn.Resource(configMaps.gvr).Namespace(ns).Update(t.Context(), r1, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.awaitKnown(t, configMaps, r2)
	s.awaitKnown(t, configMaps, odd)
	var a, b report.Lint
	await(t, "the ring to be known", func(context.Context) (bool, any) {
		out, _, _ := s.run(t, "lint", "-n", ns, "-o", "json")
		var l report.Lint
		fromJSON(t, out, &l)
		return l.Count == 2, l
	})
	a, b = both[report.Lint](t, s, 1, "lint", "-n", ns)
	if !slices.EqualFunc(a.Findings, b.Findings, func(x, y report.Finding) bool {
		return x.Code == y.Code && x.Object == y.Object && x.Effect == y.Effect && x.Text == y.Text && x.Will == y.Will
	}) {
		t.Errorf("the collector: %+v\na list: %+v", a.Findings, b.Findings)
	}
	if a.Count != 2 || a.ByCode[lint.UnknownKind] != 1 || a.ByCode[lint.Ring] != 1 {
		t.Errorf("%+v", a)
	}
	for args, want := range map[string]int{"--fail-on unknown-kind": 1, "--fail-on dangling,wrong-uid": 0, "--fail-on nonsense": 2, "--limit=-1": 2, "x": 2} {
		if _, errs, code := s.run(t, append([]string{"lint", "-n", ns}, strings.Fields(args)...)...); code != want || (errs != "") != (want == 2) {
			t.Errorf("reap lint %s: exit code %d, %s", args, code, errs)
		}
	}
	out, _, _ := s.run(t, "lint", "-n", ns, "-o", "sarif")
	var sarif struct {
		Version string
		Runs    []struct{ Results []struct{ RuleID string } }
	}
	if err := json.Unmarshal([]byte(out), &sarif); err != nil || sarif.Version != "2.1.0" || len(sarif.Runs) != 1 || len(sarif.Runs[0].Results) != 2 {
		t.Errorf("%v: %s", err, out)
	}
}

// Lint finds, before a backup is applied, the objects that the collector would delete afterwards.
func TestLintFindsWhatABackupWouldLose(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "backup")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"owner.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: owner, uid: before}\n",
		"child.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: child\n  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: before}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, errs, code := s.run(t, "lint", "-f", dir, "-n", ns)
	if code != 1 || errs != "" || !strings.Contains(out, "WILL BE COLLECTED (1)") || !strings.Contains(out, "wrong-uid") || !strings.Contains(out, "child.yaml") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	k := s.kubectl(t)
	k.run("", "apply", "-n", ns, "-f", dir)
	s.awaitCount(t, 1, configMaps, ns) // as foretold
}

// If the user may not ask the collector, reports are made from a list with the user's own rights.
func TestReportsFallBackToAListWithTheUsersRights(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "rights")
	o := s.create(t, configMaps, ns, "owner")
	s.create(t, configMaps, ns, "dependent", owner(o))
	raw, err := clientcmd.LoadFromFile(filepath.Join(s.dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range raw.AuthInfos {
		a.Impersonate, a.ImpersonateGroups = "viewer", []string{"system:authenticated", ns}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*raw, path); err != nil {
		t.Fatal(err)
	}
	s.kubectl(t).run("", "create", "clusterrolebinding", ns, "--clusterrole=view", "--group="+ns)
	as := func(args ...string) (string, string, int) {
		t.Helper()
		got := finish(t, reap([]string{"HOME=" + t.TempDir()}, append(args, "--config=", "--kubeconfig", path)...), "")
		return got.stdout, got.stderr, got.code
	}
	await(t, "the viewer's rights", func(context.Context) (bool, any) {
		out, errs, code := as("why", "cm/dependent", "-n", ns)
		return code == 0, out + errs
	})
	out, errs, code := as("why", "cm/dependent", "-n", ns)
	if code != 0 || errs != "" || !strings.Contains(out, "you may not ask the collector itself") || !strings.Contains(out, "owner-solid") ||
		!strings.Contains(out, "incomplete: ") || strings.Contains(out, "by the rules of Kubernetes' own collector") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if _, errs, code := as("status"); code != 1 || !strings.Contains(errs, "nonResourceURLs") {
		t.Errorf("reap status: exit code %d, %s", code, errs)
	}
}
