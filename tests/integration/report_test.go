package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/reap-dev/reap/pkg/gc/report"
)

// run runs a client command of reap against the server and returns its output and exit code.
func (s *server) run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := reap([]string{"HOME=" + t.TempDir()}, append(args, "--data-dir", s.dir, "--config=")...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("running reap %s: %v", strings.Join(args, " "), err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// must is run for a command that has to succeed and say nothing to stderr.
func (s *server) must(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, code := s.run(t, args...)
	if code != 0 || errs != "" {
		t.Fatalf("reap %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

func (s *server) status(t *testing.T) (r report.Status) {
	t.Helper()
	fromJSON(t, s.must(t, "status", "-o", "json"), &r)
	return r
}

func (s *server) why(t *testing.T, args ...string) (r report.Why) {
	t.Helper()
	fromJSON(t, s.must(t, append([]string{"why", "-o", "json"}, args...)...), &r)
	return r
}

// awaitKnown waits until the collector has seen an object.
func (s *server) awaitKnown(t *testing.T, k kind, o *unstructured.Unstructured) {
	t.Helper()
	await(t, "the collector to have seen "+o.GetName(), func(ctx context.Context) (bool, any) {
		err := s.kube.Discovery().RESTClient().Get().AbsPath(report.Root+"why").
			Param("group", k.gvr.Group).Param("resource", k.gvr.Resource).Param("uid", string(o.GetUID())).Do(ctx).Error()
		return err == nil, err
	})
}

func fromJSON(t *testing.T, text string, into any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
}

// sum returns the sum of a metric's series.
func (s *server) sum(t *testing.T, name string, labels ...string) (sum float64) {
	t.Helper()
	raw, err := s.metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for line := range strings.Lines(string(raw)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		found = true
		if slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(series, l) }) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		sum += v
	}
	if !found {
		t.Errorf("there is no metric %s", name)
	}
	return sum
}

// writes counts the writes of objects that the collector has made.
func (s *server) writes(t *testing.T) float64 {
	t.Helper()
	return s.sum(t, "reap_gc_api_calls_total", `verb="delete"`) + s.sum(t, "reap_gc_api_calls_total", `verb="patch"`)
}

// TestWhyNamesWhatHoldsADeletion: reap why names what holds a foreground deletion, and until when.
func TestWhyNamesWhatHoldsADeletion(t *testing.T) {
	t.Parallel()
	s := start(t, "--gc-sync-timeout=1h", "--gc-sync-timeout-per-dependent=1m")
	ns := s.namespace(t, "explained")
	o := s.create(t, configMaps, ns, "owner")
	d := s.createHeld(t, configMaps, ns, "dependent", blocking(o))
	s.deleteAs(t, configMaps, o, foreground)

	var w report.Why
	await(t, "the wait to be explained", func(context.Context) (bool, any) {
		w = s.why(t, "configmaps/owner", "-n", ns)
		return w.Reason == "waits-for-dependent", w
	})
	if w.Object.UID != o.GetUID() || w.DeletedAt.IsZero() || w.Action != "nothing" || w.BlockedBy.Count != 1 || w.BlockedBy.First[0].UID != d.GetUID() {
		t.Errorf("reap why of the owner: %+v", w)
	}
	if wait := w.Deadline.Sub(w.DeletedAt); wait < time.Hour || wait > time.Hour+patience {
		t.Errorf("the deadline is %s after the deletion", wait)
	}
	await(t, "the dependent to be deleted, and held", func(context.Context) (bool, any) {
		w = s.why(t, "cm", "dependent", "-n="+ns)
		return w.Reason == "being-deleted", w
	})
	if len(w.Finalizers) != 1 || w.Finalizers[0] != hold || len(w.Owners) != 1 || w.Owners[0].UID != string(o.GetUID()) || !w.Owners[0].BlockOwnerDeletion {
		t.Errorf("reap why of the dependent: %+v", w)
	}
	st := s.status(t)
	// The dependent was deleted in the same second or later, so that it may come first.
	if i := slices.IndexFunc(st.Waiting, func(w report.Waiting) bool { return w.Object.UID == o.GetUID() }); st.WaitingCount != 2 || i < 0 ||
		st.Waiting[i].Policy != "foreground" || st.Waiting[i].BlockedBy.Count != 1 || st.Waiting[i].Deadline.IsZero() || !slices.Equal(st.Waiting[1-i].Finalizers, []string{hold}) {
		t.Errorf("reap status shows as waiting: %+v", st.Waiting)
	}
	if !st.Running || !st.Synced || st.Objects == 0 || st.References == 0 || st.Collected == 0 || st.Pause != nil || len(st.Queues) != 2 || len(st.Monitors) < 20 {
		t.Errorf("reap status: %+v", st)
	}
	// For people, the same.
	for _, words := range [][]string{
		{"status", "WAITING", "configmaps/owner -n " + ns, "foreground", "configmaps/dependent -n " + ns},
		{"why configmap/owner -n " + ns, "blocked by", "configmaps/dependent -n " + ns, "deadline"},
	} {
		out := s.must(t, strings.Fields(words[0])...)
		for _, word := range words[1:] {
			if !strings.Contains(out, word) {
				t.Errorf("reap %s does not say %q:\n%s", words[0], word, out)
			}
		}
	}
	s.release(t, configMaps, d)
	s.awaitGone(t, configMaps, o)
	if st := s.status(t); st.WaitingCount != 0 {
		t.Errorf("still waiting: %+v", st.Waiting)
	}
}

// TestReportsFromAListEqualThoseOfTheCollector, whichever way the objects are named.
func TestReportsFromAListEqualThoseOfTheCollector(t *testing.T) {
	s := shared(t)
	ns := s.namespace(t, "listed")
	o := s.create(t, configMaps, ns, "owner")
	d := s.create(t, configMaps, ns, "dependent", owner(o))
	s.awaitKnown(t, configMaps, d)
	want := s.why(t, "configmaps/dependent", "-n", ns)
	if want.Basis.Source != report.FromCollector || want.Basis.Objects == 0 {
		t.Errorf("asked of the collector: %+v", want.Basis)
	}
	manifest := filepath.Join(t.TempDir(), "dependent.yaml")
	if err := os.WriteFile(manifest, []byte("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: dependent, namespace: "+ns+"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, named := range []string{"cm/dependent", "configmap dependent", "configmaps.v1./dependent cm/dependent", "-f " + manifest} {
		got := s.why(t, append(strings.Fields(named), "-n", ns, "--server-side=false")...)
		if got.Basis.Source != report.FromListing || got.Basis.Rules != report.RulesOfReap || got.Basis.Note == "" || got.Basis.Objects == 0 || len(got.Basis.Incomplete) > 0 {
			t.Errorf("%s, from a list: %+v", named, got.Basis)
		}
		got.Basis, got.Now = want.Basis, want.Now
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: from a list\n%+v\nfrom the collector\n%+v", named, got, want)
		}
	}
	out := s.must(t, "why", "cm", "owner", "dependent", "-n", ns)
	if !strings.Contains(out, "no-references") || !strings.Contains(out, "owner-solid") {
		t.Errorf("reap why of two objects: %s", out)
	}
}

// Each error is one line, with an exit code.
func TestErrorsOfReportsAreOneLineAndAnExitCode(t *testing.T) {
	s := shared(t)
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"why configmaps/none -n default": {1, `there is no configmaps "none" in the namespace default`},
		"why widgets/none":               {1, `have a resource type "widgets"`},
		"why":                            {2, "TYPE/NAME"},
		"why cm/none cm":                 {1, "there is no need to specify a resource type as a separate argument"},
		"why cm":                         {1, "no name was specified"},
		"why cm -A -l app=none":          {1, "no object matches"},
		"why -f /none":                   {1, "/none"},
		"status -o yaml":                 {2, "text or json"},
		"status now":                     {2, "takes no arguments"},
		"pause now":                      {2, "takes no arguments"},
		"status --namespace x":           {2, "unknown flag --namespace"},
	} {
		out, errs, code := s.run(t, strings.Fields(args)...)
		if code != want.code || out != "" || !strings.Contains(errs, want.says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("reap %s: exit code %d\n%s%s", args, code, out, errs)
		}
	}
}

// TestReportsRequirePermission, since they contain names of objects.
func TestReportsRequirePermission(t *testing.T) {
	s := shared(t)
	as := rest.CopyConfig(s.config)
	as.Impersonate.UserName = "reader-of-reports"
	client, err := kubernetes.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	read := func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath(report.Root + "status").Do(ctx).Error()
	}
	if err := read(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("to whom nothing is allowed: %v", err)
	}
	raw, err := os.ReadFile(filepath.Join("..", "..", "deploy", "reports.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var reports rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(raw, &reports); err != nil {
		t.Fatal(err)
	}
	role, err := s.kube.RbacV1().ClusterRoles().Create(t.Context(), &reports, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader-of-reports", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: role.Name, UID: role.UID}}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: as.Impersonate.UserName}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the report to be readable", func(ctx context.Context) (bool, any) {
		err := read(ctx)
		return err == nil, err
	})
	for _, path := range ourEndpoints() {
		_, err := client.Discovery().RESTClient().Get().AbsPath(path).DoRaw(t.Context())
		if forbidden := apierrors.IsForbidden(err); forbidden != (path == "/metrics") {
			t.Errorf("a reader of reports asks for %s: %v", path, err)
		}
	}
	if err := client.Discovery().RESTClient().Post().AbsPath(report.Root + "snapshot").Do(t.Context()).Error(); !apierrors.IsForbidden(err) {
		t.Errorf("a reader of reports asks for a snapshot: %v", err)
	}
	if err := s.kube.RbacV1().ClusterRoles().Delete(t.Context(), role.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "it to be forbidden again", func(ctx context.Context) (bool, any) {
		err := read(ctx)
		return apierrors.IsForbidden(err), err
	})
}

// TestPause keeps everything as it is, over a restart, and loses nothing.
func TestPause(t *testing.T) {
	t.Parallel()
	s := start(t)
	ns := s.namespace(t, "paused")
	o := s.create(t, configMaps, ns, "owner")
	s.createMany(t, 20, configMaps, ns, "dependent", owner(o))
	stays := s.create(t, configMaps, ns, "orphaning")
	s.create(t, configMaps, ns, "orphan", owner(stays))

	if out := s.must(t, "pause", "--reason", "a test"); !strings.Contains(out, "writes nothing") {
		t.Errorf("reap pause said %q", out)
	}
	if out := s.must(t, "pause"); !strings.Contains(out, "paused already") || !strings.Contains(out, "a test") {
		t.Errorf("reap pause, again, said %q", out)
	}
	s.delete(t, configMaps, o)
	s.deleteAs(t, configMaps, stays, metav1.DeletePropagationOrphan)
	// The graph goes on.
	await(t, "the collector to know", func(context.Context) (bool, any) {
		st := s.status(t)
		return st.WaitingCount == 1 && st.Queues[0].Length+st.Queues[1].Length >= 20, st
	})
	before := s.writes(t)
	s.stop(t)
	s.restart(t)
	await(t, "the pause to be read", func(context.Context) (bool, any) { // which comes behind the check of the datastore
		st := s.status(t)
		return st.Pause != nil && st.Pause.Reason == "a test" && st.Pause.By != "" && !st.Pause.Since.IsZero(), st.Pause
	})
	await(t, "the collector to know, after a restart", func(context.Context) (bool, any) {
		st := s.status(t)
		return st.WaitingCount == 1 && st.Queues[0].Length+st.Queues[1].Length >= 20, st
	})
	if n := s.count(t, configMaps, ns); n != 22 {
		t.Errorf("%d objects are left of 22", n)
	}
	if after := s.writes(t); after != 0 || before != 0 {
		t.Errorf("the collector has written: %v calls before the restart, %v after", before, after)
	}
	if s.sum(t, "reap_gc_paused") != 1 {
		t.Error("no metric says that it is paused")
	}
	if out := s.must(t, "resume"); !strings.Contains(out, "it was paused for") || !strings.Contains(out, "a test") {
		t.Errorf("reap resume said %q", out)
	}
	s.awaitCount(t, 1, configMaps, ns) // the orphan
	if s.status(t).Pause != nil || s.sum(t, "reap_gc_paused") != 0 {
		t.Error("it still says that it is paused")
	}
	if out := s.must(t, "resume"); !strings.Contains(out, "not paused") {
		t.Errorf("reap resume, again, said %q", out)
	}
	log := string(s.logFrom(0))
	if !strings.Contains(log, "collector is paused") || !strings.Contains(log, "collector goes on after a pause") {
		t.Error("the log does not tell of the pause")
	}
}

// A pause set while no collector runs applies to the next collector.
func TestPauseHoldsTheNextCollector(t *testing.T) {
	t.Parallel()
	s := start(t, "--disable=gc")
	if out := s.must(t, "status"); !strings.Contains(out, "not running") || !strings.Contains(out, "--disable=gc") {
		t.Errorf("reap status said %q", out)
	}
	if out := s.must(t, "pause"); !strings.Contains(out, "when one runs") {
		t.Errorf("reap pause said %q", out)
	}
	if out := s.must(t, "why", "ns/default"); !strings.Contains(out, "--disable=gc") || !strings.Contains(out, "no-references") {
		t.Errorf("reap why said %q", out)
	}
	s.stop(t)
	s.restart(t, s.args[:len(s.args)-1]...)
	if st := s.status(t); !st.Running || st.Pause == nil {
		t.Errorf("the next collector: %+v", st)
	}
}

// TestGraphvizDrawsTheGraph asks for the graph as Kubernetes' documentation says, and lets Graphviz draw it.
func TestGraphvizDrawsTheGraph(t *testing.T) {
	dot, err := exec.LookPath("dot")
	if err != nil {
		t.Skip("no Graphviz")
	}
	s := shared(t)
	ns := s.namespace(t, "drawn")
	o := s.create(t, configMaps, ns, "owner")
	d := s.create(t, configMaps, ns, "dependent", owner(o))
	s.create(t, configMaps, ns, "bystander")
	s.barrier(t, configMaps, ns)
	k := s.kubectl(t)
	for _, path := range report.GraphPaths {
		graph := k.run("", "get", "--raw", path+"?uid="+string(o.GetUID()))
		svg := finish(t, exec.CommandContext(t.Context(), dot, "-Tsvg"), graph)
		if svg.code != 0 || svg.stderr != "" {
			t.Fatalf("Graphviz: code %d, %s\n%s", svg.code, svg.stderr, graph)
		}
		for name, there := range map[string]bool{"ConfigMap/owner": true, "ConfigMap/dependent": true, string(d.GetUID()): true, "bystander": false} {
			if strings.Contains(html.UnescapeString(svg.stdout), name) != there {
				t.Errorf("%s: %s is drawn: %v", path, name, !there)
			}
		}
	}
	if all := k.run("", "get", "--raw", report.GraphPaths[0]); !strings.Contains(all, "bystander") {
		t.Error("without a UID not all is shown")
	}
}
