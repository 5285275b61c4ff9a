package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/pause"
	"github.com/reap-dev/reap/tests/goldenfile"
)

var update = goldenfile.Update

var (
	now        = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	configMaps = schema.GroupResource{Resource: "configmaps"}
)

// world returns a graph of ConfigMaps. root is in foreground deletion and blocked by a dozen dependents, one of which has
// other owners too. An object that is being orphaned waits as well.
func world() *graph.Graph {
	g := graph.New()
	g.SetCatalog(graph.NewCatalog([]*graph.Resource{
		{Name: "configmaps", Kind: "ConfigMap", Versions: []string{"v1"}, Namespaced: true, Monitored: true},
	}), now)
	g.AddResource(configMaps, schema.GroupKind{Kind: "ConfigMap"}, now)
	put := func(rec graph.Record, owners ...graph.Reference) {
		rec.Namespace, rec.Name, rec.ResourceVersion, rec.References = "ns", string(rec.UID), "1", owners
		g.Upsert(configMaps, &rec, now)
	}
	ref := func(uid string, kind string) graph.Reference {
		return graph.Reference{APIVersion: "v1", Kind: kind, Name: uid, UID: types.UID(uid), BlockOwnerDeletion: graph.True}
	}
	put(graph.Record{UID: "root", Deleting: true, Foreground: true, DeletedAt: now.Add(-5 * time.Minute).Unix()})
	put(graph.Record{UID: "orphaning", Deleting: true, Orphan: true, DeletedAt: now.Add(-time.Minute).Unix()})
	put(graph.Record{UID: "alive"})
	for i := range 11 {
		put(graph.Record{UID: types.UID(fmt.Sprintf("d%02d", i))}, ref("root", "ConfigMap"))
	}
	put(graph.Record{UID: "many"}, ref("root", "ConfigMap"), ref("alive", "ConfigMap"), ref("gone", "ConfigMap"), ref("odd", "Gadget"))
	g.Learn("gone", graph.Coordinates{Kind: "ConfigMap", Namespace: "ns", Name: "gone"}, graph.Fact{State: graph.Absent})
	return g
}

// behindWorld returns a graph in which root waits for three dependents. Two of them wait for the same leaf, which a finalizer
// holds; the third has an owner of an unknown kind. a and b hold each other, and a namespace is being deleted.
func behindWorld() *graph.Graph {
	g := graph.New()
	g.SetCatalog(graph.NewCatalog([]*graph.Resource{
		{Name: "configmaps", Kind: "ConfigMap", Versions: []string{"v1"}, Namespaced: true, Monitored: true},
		{Name: "namespaces", Kind: "Namespace", Versions: []string{"v1"}, Monitored: true},
	}), now)
	g.AddResource(configMaps, schema.GroupKind{Kind: "ConfigMap"}, now)
	g.AddResource(namespaces, schema.GroupKind{Kind: "Namespace"}, now)
	put := func(rec graph.Record, owners ...string) {
		rec.Namespace, rec.Name, rec.ResourceVersion, rec.DeletedAt = "ns", string(rec.UID), "1", now.Add(-time.Minute).Unix()
		for _, o := range owners {
			kind := "ConfigMap"
			if strings.HasPrefix(o, "gadget") {
				kind = "Gadget"
			}
			rec.References = append(rec.References, graph.Reference{APIVersion: "v1", Kind: kind, Name: o, UID: types.UID(o), BlockOwnerDeletion: graph.True})
		}
		g.Upsert(configMaps, &rec, now)
	}
	put(graph.Record{UID: "root", Deleting: true, Foreground: true})
	put(graph.Record{UID: "one", Deleting: true, Foreground: true}, "root")
	put(graph.Record{UID: "two", Deleting: true, Foreground: true}, "root")
	put(graph.Record{UID: "leaf", Deleting: true}, "one", "two")
	put(graph.Record{UID: "vetoed"}, "root", "gadget")
	put(graph.Record{UID: "a", Deleting: true, Foreground: true}, "b")
	put(graph.Record{UID: "b", Deleting: true, Foreground: true}, "a")
	put(graph.Record{UID: "untouched"})
	g.Upsert(namespaces, &graph.Record{UID: "ns", Name: "ns", ResourceVersion: "1", Deleting: true, DeletedAt: now.Add(-time.Minute).Unix()}, now)
	g.Upsert(namespaces, &graph.Record{UID: "empty", Name: "empty", ResourceVersion: "1"}, now)
	return g
}

// advisedOn explains an object of behindWorld as a command does after reading finalizers.
func advisedOn(t *testing.T, gr schema.GroupResource, uid string) Why {
	t.Helper()
	g := behindWorld()
	v, ok := g.View(graph.Key{Resource: gr, UID: types.UID(uid)})
	if !ok {
		t.Fatalf("%s is not in the graph", uid)
	}
	for i := range v.Owners {
		if v.Owners[i].Observed != nil {
			v.Owners[i].Fact = graph.Fact{State: graph.Present, Seen: now, Waiting: true}
		}
	}
	w := Explain(g, &v, decide.Options{}, now)
	read := func(held []Holder) {
		for i := range held {
			if held[i].Object.Name == "leaf" {
				held[i].Finalizers = []string{"example.com/it's"}
			}
		}
	}
	read(w.HeldBy)
	if w.Contents != nil {
		read(w.Contents.HeldBy)
		w.Contents.Conditions = []string{"NamespaceDeletionDiscoveryFailure: Discovery failed for some groups"}
		w.Contents.Unavailable = []string{"v1beta1.metrics.k8s.io"}
	}
	w.Advise(" --context here", " --context there")
	return w
}

func explain(t *testing.T, g *graph.Graph, uid string, o decide.Options, change func(*graph.View)) Why {
	t.Helper()
	v, ok := g.View(graph.Key{Resource: configMaps, UID: types.UID(uid)})
	if !ok {
		t.Fatalf("%s is not in the graph", uid)
	}
	change(&v)
	return Explain(g, &v, o, now)
}

func status(g *graph.Graph) Status {
	s := Status{
		Running: true, Since: now.Add(-2 * time.Hour), Now: now, Synced: true, Workers: 8, Busy: 3, Objects: 1234, References: 99, Virtual: 2, Collected: 17,
		Pause:    &pause.State{Paused: true, Since: now.Add(-time.Minute), By: "me@here", Reason: "a test"},
		Queues:   []Queue{{Name: "delete", Length: 3, OldestSeconds: 61}, {Name: "orphan"}},
		Monitors: []Monitor{{Resource: "configmaps", State: "synced"}, {Resource: "widgets.example.com", State: "failing", Error: "no webhook", Since: now.Add(-time.Minute)}},
		Holds: []Hold{
			{Resource: "gadgets.example.com", Objects: 3, Why: "it is not served though objects of it may exist", Remedy: "serve a version of the CRD or delete it"},
			{APIService: "v1.dead.example.com", Why: "discovery has never shown what dead.example.com/v1 serves", Remedy: "make the APIService available or delete it"},
		},
	}
	s.Version = StatusVersion
	s.Cascades = []Cascade{
		{Root: Object{Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web", UID: "w"}, Policy: "background", Began: now.Add(-15 * time.Second), Deleted: 12400, PerSecond: 812.4, Left: 7600},
		{Root: Object{Resource: "configmaps", Namespace: "ns", Name: "done", UID: "d"}, Policy: "background", Began: now.Add(-20 * time.Second), Deleted: 3},
		{Root: Object{Resource: "configmaps", Namespace: "ns", Name: "root", UID: "root"}, Began: now.Add(-5 * time.Minute)},
	}
	s.Cascades[2].Measure(behindWorld(), []Object{s.Cascades[2].Root}, decide.Options{}, now)
	s.CascadeCount = 4
	s.Failing = []Failure{{Object: Object{Resource: "secrets", Namespace: "ns", Name: "kept", UID: "k"}, Failures: 7, Since: now.Add(-time.Minute), Error: `delete secrets ns/kept: admission webhook "keep.example.com" denied the request: keep`}}
	s.FailingCount = 2
	s.Waiting, s.WaitingCount = WaitingIn(g, decide.Options{Timeout: decide.Timeout{Base: 15 * time.Minute}}, now)
	return s
}

func guardedNode(name string) graph.Node {
	return graph.Node{Key: graph.Key{Resource: configMaps, UID: types.UID(name)}, Record: &graph.Record{Namespace: "ns", Name: name, UID: types.UID(name)}}
}

// TestReports compares text and JSON with golden files: people rely on the text, scripts on the JSON.
func TestReports(t *testing.T) {
	g := world()
	for name, r := range map[string]interface{ Print(*bytes.Buffer) error }{
		"status":        printed{status(g)},
		"status-of-one": printed{Status{Running: true, Since: now, Now: now, Workers: 1, Objects: 1, References: 1, Virtual: 1, Collected: 1, WaitingCount: 1}},
		"status-guarded": printed{Status{Running: true, Since: now, Now: now, Workers: 1, Pause: &pause.State{Paused: true, Since: now, By: "--gc-guard", Reason: "more than 2 deletions"},
			Guard: NewGuard(2, 10*time.Minute, []graph.Node{guardedNode("a"), guardedNode("b")}, new(guardedNode("c")))}},
		"status-controllers": printed{Status{Absent: "no collector runs in this server (--disable=gc)", FailingControllers: []Controller{
			{Name: "csrsigning", Since: now, Attempts: 1, Error: "reading the certificate to sign with:\nno such file"},
			{Name: "serviceaccount-token", Since: now, Attempts: 7, Error: "reading the key that signs tokens: no such file"}}}},
		"status-absent":   printed{Status{Absent: "no collector runs in this server (--disable=gc)"}},
		"why-waiting":     printed{explain(t, g, "root", decide.Options{Timeout: decide.Timeout{Base: 10 * time.Minute}}, func(*graph.View) {})},
		"why-for-ever":    printed{explain(t, g, "root", decide.Options{}, func(*graph.View) {})},
		"why-owners":      printed{explain(t, g, "many", decide.Options{}, func(v *graph.View) { v.Owners[0].Fact = graph.Fact{State: graph.Present, Seen: now, Waiting: true} })},
		"why-no-owner":    printed{explain(t, g, "alive", decide.Options{}, func(*graph.View) {})},
		"why-from-a-list": printed{fromAList(explain(t, g, "root", decide.Options{}, func(*graph.View) {}))},
		"why-behind":      printed{advisedOn(t, configMaps, "root")},
		"why-ring":        printed{advisedOn(t, configMaps, "a")},
		"why-leaf":        printed{advisedOn(t, configMaps, "leaf")},
		"why-vetoed":      printed{advisedOn(t, configMaps, "vetoed")},
		"why-namespace":   printed{advisedOn(t, namespaces, "ns")},
		"why-empty":       printed{advisedOn(t, namespaces, "empty")},
		"why-is-orphaned": printed{explain(t, g, "orphaning", decide.Options{}, func(*graph.View) {})},
	} {
		var out bytes.Buffer
		if err := r.Print(&out); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		golden := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil || !bytes.Equal(out.Bytes(), want) {
			t.Errorf("%s (%v): got\n%s\nwant\n%s", name, err, &out, want)
		}
	}
}

// fromAList returns the explanation as if it were made from a listing.
func fromAList(w Why) Why {
	w.Basis = Basis{Source: FromListing, Rules: RulesOfKubernetes, Note: "no collector of reap answers at https://there", Objects: 17}
	for i := range gapsShown + 2 {
		w.Basis.Incomplete = append(w.Basis.Incomplete, Gap{What: fmt.Sprintf("r%d", i), Why: "forbidden:\n  you"})
	}
	return w
}

// printed prints a report both ways.
type printed struct{ r any }

func (p printed) Print(out *bytes.Buffer) error {
	var err error
	switch r := p.r.(type) {
	case Status:
		err = r.Print(out)
	case Why:
		err = r.Print(out)
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return errors.Join(err, e.Encode(p.r))
}

func TestEveryReasonHasASentence(t *testing.T) {
	for _, r := range decide.Reasons() {
		if sentence(r) == "" {
			t.Errorf("%s has none", r)
		}
	}
}

// fake is a collector that knows one object.
type fake struct{}

func (fake) Status() Status      { return Status{Running: true, Workers: 7} }
func (fake) Graph() *graph.Graph { return world() }
func (fake) Lint(_ context.Context, o LintOptions) Lint {
	return Lint{Count: 3, Basis: Basis{Note: fmt.Sprint(o)}}
}
func (fake) Tree(o TreeOptions) (Tree, error) {
	if len(o.Keys) > 0 && o.Keys[0].UID != "u" {
		return Tree{}, errors.New("not seen")
	}
	return Tree{Basis: Basis{Note: fmt.Sprint(o)}}, nil
}
func (fake) Why(k graph.Key) (Why, error) {
	if k.Resource != (schema.GroupResource{Group: "apps", Resource: "deployments"}) || k.UID != "u" {
		return Why{}, errors.New("not seen")
	}
	return Why{Reason: "owner-solid"}, nil
}

func (fake) Plan(_ context.Context, q PlanRequest) (Plan, error) {
	if q.Targets[0].UID != "u" {
		return Plan{}, errors.New("not seen")
	}
	return Plan{Policy: q.Policy, Totals: PlanCount{Gone: len(q.Targets)}, Omitted: q.Limit}, nil
}

func absent() (Collector, Absence) { return nil, Absence{Reason: "it sleeps"} }

func present() (Collector, Absence) { return fake{}, Absence{} }

func failing() []Controller { return []Controller{{Name: "csrsigning"}} }

func TestHandler(t *testing.T) {
	h := &Handler{Running: absent}
	get := func(method, path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if w.Header().Get("Content-Type") != "application/json" || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s is no JSON: %s", path, w.Body)
		}
		return w.Code, w.Body.String()
	}
	for _, step := range []struct {
		set    func()
		method string
		path   string
		code   int
		says   string
	}{
		{nil, "GET", "/reap/v1/status", 200, "it sleeps"},
		{func() { h.Controllers = failing }, "GET", "/reap/v1/status", 200, `"name": "csrsigning"`},
		{nil, "GET", "/reap/v1/why?resource=x&uid=u", 503, "it sleeps"},
		{nil, "GET", "/reap/v1/lint", 503, "it sleeps"},
		{nil, "GET", "/reap/v1/tree", 503, "it sleeps"},
		{func() { h.Running = present }, "GET", "/reap/v1/status", 200, `"workers": 7`},
		{nil, "GET", "/reap/v1/status", 200, `"name": "csrsigning"`},
		{nil, "GET", "/reap/v1/why?group=apps&resource=deployments&uid=u", 200, "owner-solid"},
		{nil, "GET", "/reap/v1/why?resource=deployments&uid=u", 404, "not seen"},
		{nil, "GET", "/reap/v1/why?resource=deployments", 400, "uid"},
		{nil, "GET", "/reap/v1/why", 400, "resource"},
		{nil, "GET", "/reap/v1/plan?object=pods/u&object=deployments.apps/v&policy=Orphan&limit=5", 200, `"policy": "Orphan"`},
		{nil, "GET", "/reap/v1/plan?object=pods/u&object=deployments.apps/v&policy=Orphan&limit=5", 200, `"gone": 2`},
		{nil, "GET", "/reap/v1/plan?object=pods/v", 404, "not seen"},
		{nil, "GET", "/reap/v1/plan?object=pods", 400, "deployments.apps/UID"},
		{nil, "GET", "/reap/v1/plan", 400, "at least one"},
		{nil, "GET", "/reap/v1/plan?object=pods/u&policy=Sideways", 400, "Sideways"},
		{nil, "GET", "/reap/v1/plan?object=pods/u&limit=-1", 400, "limit"},
		{nil, "GET", "/reap/v1/none", 404, "/reap/v1/none"},
		{nil, "GET", "/reap/v1/lint?namespace=ns&limit=7", 200, "{ns 7}"},
		{nil, "GET", "/reap/v1/lint?limit=-1", 400, `limit=\"-1\"`},
		{nil, "GET", "/reap/v1/lint?limit=", 400, "give a number"},
		{nil, "GET", "/reap/v1/lint?namespace=", 200, "{ 0}"}, // as the commands ask
		{nil, "GET", "/reap/v1/lint?namespace=No%20Such", 400, "namespace"},
		{nil, "GET", "/reap/v1/tree?namespace=a/b", 400, "namespace"},
		{nil, "GET", "/reap/v1/plan?object=pods/u&limit=1&limit=2", 400, "once"},
		{nil, "GET", "/reap/v1/tree?object=deployments.apps/u&object=x/v&limit=3", 200, "{[{deployments.apps u} {x v}]  3}"},
		{nil, "GET", "/reap/v1/tree?namespace=ns", 200, "{[] ns 0}"},
		{nil, "GET", "/reap/v1/tree?object=deployments.apps/none", 404, "not seen"},
		{nil, "GET", "/reap/v1/tree?object=deployments.apps", 400, "deployments.apps"},
		{nil, "GET", "/reap/v1/tree?limit=x", 400, `limit=\"x\"`},
		{nil, "GET", GraphPaths[0] + "?uid=u&uid=", 400, "UID"},
		{nil, "GET", GraphPaths[1] + "?UID=u", 400, "give only uid"},
		{nil, "POST", "/reap/v1/status", http.StatusMethodNotAllowed, "read"},
	} {
		if step.set != nil {
			step.set()
		}
		if code, body := get(step.method, step.path); code != step.code || !strings.Contains(body, step.says) {
			t.Errorf("%s %s: %d %s", step.method, step.path, code, body)
		}
	}
	for _, e := range endpoints {
		for _, query := range []string{"nonsense=1", "limit=%zz", string(e.takes) + ";"} {
			if code, body := get("GET", Root+e.name+"?"+query); code != http.StatusBadRequest {
				t.Errorf("%s?%s: %d %s", e.name, query, code, body)
			}
		}
	}
}

func TestLongListsAreCutShort(t *testing.T) {
	g := world()
	for i := range 2 * waitingListed {
		uid := types.UID(fmt.Sprintf("w%03d", i))
		g.Upsert(configMaps, &graph.Record{Namespace: "ns", Name: string(uid), UID: uid, Deleting: true, Foreground: true, DeletedAt: now.Unix()}, now)
	}
	list, n := WaitingIn(g, decide.Options{}, now)
	if len(list) != waitingListed || n != 2*waitingListed+2 || list[0].Object.Name != "root" || list[1].Object.Name != "orphaning" {
		t.Errorf("%d of %d, the first is %+v", len(list), n, list[0])
	}
	var out bytes.Buffer
	if err := (Status{Running: true, Now: now, Waiting: list, WaitingCount: n}).Print(&out); err != nil || !strings.Contains(out.String(), "and 102 more") {
		t.Errorf("%v\n%s", err, &out)
	}
}

// TestDeletedObjectsThatNothingOwnsAreListed: status and the tree of a namespace list every object that has been deleted and is
// still there, with what holds it.
func TestDeletedObjectsThatNothingOwnsAreListed(t *testing.T) {
	g := behindWorld()
	hour := now.Add(-time.Hour).Unix()
	g.Upsert(configMaps, &graph.Record{Namespace: "other", Name: "alone", UID: "alone", Deleting: true, DeletedAt: hour, OtherFinalizers: true,
		Finalizers: graph.FinalizersOf([]string{"example.com/hold", "example.com/\x1b[31m"})}, now)
	g.Upsert(configMaps, &graph.Record{Namespace: "other", Name: "graceful", UID: "graceful", Deleting: true, DeletedAt: hour + 1}, now)
	list, n := WaitingIn(g, decide.Options{}, now)
	if n != 9 {
		t.Errorf("%d are listed, want 9: of behindWorld 6 objects and the namespace, and 2", n)
	}
	var out bytes.Buffer
	if err := (Status{Running: true, Now: now, Waiting: list, WaitingCount: n}).Print(&out); err != nil {
		t.Fatal(err)
	}
	if err := NewTree(g, g.View, TreeOptions{Namespace: "other"}, Basis{Source: FromCollector}, now).Print(&out); err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(" +").ReplaceAllString(out.String(), " ")
	for _, want := range []string{
		"waiting 9 deletions", "configmaps/alone -n other 60m background - finalizers example.com/hold, example.com/",
		"configmaps/graceful -n other 59m background - its grace period", "namespaces/ns 60s background - what is in it, or spec.finalizers", "Terminating for 60m: held by the finalizers example.com/hold",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("it writes to the terminal: %q", text)
	}
}

// TestDOT compares with a golden file. In tests/integration Graphviz itself reads DOT output where it is installed.
func TestDOT(t *testing.T) {
	g := world()
	g.Upsert(configMaps, &graph.Record{Namespace: "ns", Name: "odd", UID: "odd", References: []graph.Reference{
		{APIVersion: "v1", Kind: `a"b\\`, Name: "two\nlines", UID: `"quoted\\`},
	}}, now)
	var out bytes.Buffer
	if err := writeDOT(&out, g.Around("many", "odd")); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "graph.golden")
	if *update {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(out.Bytes(), want) {
		t.Errorf("%v: got\n%s\nwant\n%s", err, &out, want)
	}
}

func TestGraphIsServed(t *testing.T) {
	h := &Handler{}
	for _, path := range GraphPaths {
		h.Running = absent
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 503 {
			t.Errorf("%s without a collector: %d", path, w.Code)
		}
		h.Running = present
		w = httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path+"?uid=alive&uid=orphaning", nil))
		if w.Code != 200 || w.Header().Get("Content-Type") != "text/vnd.graphviz" || !strings.Contains(w.Body.String(), `"many" -> "alive"`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestStatusScreens compares what reap status --watch draws with golden files. No line may be longer than the terminal is wide.
func TestStatusScreens(t *testing.T) {
	all := ""
	for _, size := range []struct{ columns, rows int }{{80, 24}, {200, 50}, {40, 8}} {
		lines := status(world()).Screen("https://127.0.0.1:6443", size.columns, size.rows)
		if len(lines) > size.rows {
			t.Errorf("%d lines of %d", len(lines), size.rows)
		}
		for _, l := range lines {
			if n := utf8.RuneCountInString(l); n > size.columns {
				t.Errorf("%d columns of %d: %s", n, size.columns, l)
			}
		}
		all += fmt.Sprintf("%d x %d\n%s\n\n", size.columns, size.rows, strings.Join(lines, "\n"))
	}
	golden := filepath.Join("testdata", "screens.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(all), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || all != string(want) {
		t.Errorf("%v: got\n%s\nwant\n%s", err, all, want)
	}
}

// TestProgressBar: no work counts as done.
func TestProgressBar(t *testing.T) {
	for _, c := range []struct {
		done, all int
		want      string
	}{{0, 10, "0% [..........]"}, {5, 10, "50% [====>.....]"}, {10, 10, "100% [==========]"}, {0, 0, "100% [==========]"}, {7, 3, "100% [==========]"}} {
		if got := Bar(c.done, c.all, 10); got != c.want {
			t.Errorf("%d of %d: %q, want %q", c.done, c.all, got, c.want)
		}
	}
}

// TestCommandsAreSafeToCopy: anybody may have chosen the names of references and finalizers.
func TestCommandsAreSafeToCopy(t *testing.T) {
	w := Why{Object: Object{Resource: "configmaps", Namespace: "ns", Name: "o"}, Reason: "being-deleted", Finalizers: []string{"example.com/$(reboot)", "example.com/\x1b[2Jx"}}
	w.Advise("", "")
	if len(w.Commands) != 1 || w.Commands[0].Command != "reap release configmaps/o -n ns --finalizer 'example.com/$(reboot)'" {
		t.Errorf("%+v", w.Commands)
	}
}

// TestReleaseText checks what a release says that it gives up.
func TestReleaseText(t *testing.T) {
	o := Object{Resource: "configmaps", Namespace: "ns", Name: "o", UID: "u"}
	many := &Objects{Count: 12, First: []Object{o}}
	for _, c := range []struct {
		r    Release
		says []string
	}{
		{NewRelease(o, []string{"foregroundDeletion"}, "foregroundDeletion", many), []string{"12 dependents (configmaps/o -n ns and 11 more)", "in the background", "goes at once"}},
		{NewRelease(o, []string{"orphan", "example.com/x"}, "orphan", &Objects{}), []string{"nobody has seen yet", "DELETED", "still held  example.com/x"}},
		{NewRelease(o, []string{"orphan", "example.com/x"}, "example.com/x", nil), []string{"clean up", "still held  orphan"}},
		{Release{Object: o, Finalizer: "f", Released: true}, []string{"released configmaps/o -n ns from f", "nothing holds it"}},
		{Release{Object: o, Finalizer: "f", Released: true, Left: []string{"g"}}, []string{"stays until these finalizers go: g"}},
	} {
		var out bytes.Buffer
		if err := c.r.Print(&out); err != nil {
			t.Fatal(err)
		}
		for _, s := range c.says {
			if !strings.Contains(out.String(), s) {
				t.Errorf("%q is missing in\n%s", s, &out)
			}
		}
	}
}
