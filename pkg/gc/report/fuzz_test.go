package report

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/lint"
	"github.com/reap-dev/reap/pkg/gc/plan"
	"github.com/reap-dev/reap/pkg/gc/relink"
)

// forged is what a hostile text puts on a line of its own. No report may contain such a line.
const forged = "FORGED"

// objectSeeds are metadata as the API server would accept them, and worse.
var objectSeeds = []string{
	`[]`,
	`[{"kind":"ConfigMap","metadata":{"name":"a","namespace":"n","uid":"a"}},
	  {"kind":"Pod","metadata":{"name":"b","namespace":"n","uid":"b","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"a","controller":true,"blockOwnerDeletion":true}]}}]`,
	// Rings, an object that owns itself, deletions by each policy.
	`[{"kind":"ConfigMap","metadata":{"name":"a","namespace":"n","uid":"a","deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["foregroundDeletion","x.io/y"],
	   "annotations":{"gc.reap.dev/sync-timeout":"5s"},"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"b","uid":"b","blockOwnerDeletion":true},{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"a"}]}},
	  {"kind":"ConfigMap","metadata":{"name":"b","namespace":"n","uid":"b","deletionTimestamp":"9999-12-31T23:59:59Z","finalizers":["orphan","foregroundDeletion"],
	   "annotations":{"gc.reap.dev/sync-timeout":"never"},"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"a","blockOwnerDeletion":true}]}}]`,
	// Texts that a terminal, a shell or a table would interpret.
	`[{"kind":"Pod","metadata":{"name":"c","namespace":"n","uid":"c","ownerReferences":[
	   {"apiVersion":"v1","kind":"Config\u001b[2JMap","name":"x\nFORGED","uid":"u\nFORGED"},
	   {"apiVersion":"a/b/c","kind":"","name":"","uid":""},
	   {"apiVersion":"v1\r\nFORGED","kind":"Node\u202e","name":"$(reboot)","uid":"\u009b2J"},
	   {"apiVersion":"apps/v1","kind":"Deployment","name":"a\tb","uid":"gone\nFORGED"},
	   {"apiVersion":"v1","kind":"ConfigMap","name":"x\nFORGED","uid":"absent\nFORGED"},
	   {"apiVersion":"v1","kind":"ConfigMap","name":"x\nFORGED","uid":"absent\nFORGED"}]}}]`,
	// One UID at two places, wrong namespaces, a node with a namespaced owner.
	`[{"kind":"Pod","metadata":{"name":"d","namespace":"n","uid":"d"}},{"kind":"ConfigMap","metadata":{"name":"d","namespace":"m","uid":"d"}},
	  {"kind":"Node","metadata":{"name":"e","uid":"e","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"d","uid":"d","blockOwnerDeletion":true}]}},
	  {"kind":"Pod","metadata":{"name":"f","namespace":"o","uid":"f","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"d","uid":"d"}]}}]`,
	`[{"metadata":{"uid":"a","annotations":{"gc.reap.dev/sync-timeout":"-9223372036854775808ns"},"deletionTimestamp":"0001-01-01T00:00:00Z"}}]`,
}

// FuzzObjects sends metadata that anybody may have written all the way: into the graph, through every decision and into every
// report. The graph stays consistent, references come back unchanged, and no report has a line or a control character that comes
// from a name.
func FuzzObjects(f *testing.F) {
	for _, s := range objectSeeds {
		f.Add([]byte(s), uint8(0))
		f.Add([]byte(s), uint8(0xff))
	}
	f.Fuzz(func(t *testing.T, raw []byte, known uint8) {
		var objects []metav1.PartialObjectMetadata
		if json.Unmarshal(raw, &objects) != nil || len(objects) > 50 {
			t.Skip("no list of objects, or a long one")
		}
		g := shop()
		resources := map[string]schema.GroupResource{}
		for _, r := range g.Catalog().Resources() {
			resources[r.Kind] = r.GroupResource()
		}
		for i := range objects {
			rec := graph.RecordOf(&objects[i])
			gr, ok := resources[objects[i].Kind]
			// The server validates UIDs, names and namespaces; users cannot choose them freely.
			if !ok || rec.UID == "" || strings.ContainsFunc(string(rec.UID)+rec.Name+rec.Namespace, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) || r == '/' }) {
				continue
			}
			for j, ref := range objects[i].OwnerReferences {
				if back := rec.References[j].OwnerReference(); graph.ReferenceOf(back) != graph.ReferenceOf(ref) || back.String() != ref.String() {
					t.Errorf("%s came back as %s", ref.String(), back.String())
				}
			}
			rec.ResourceVersion = fmt.Sprint(i + 1)
			g.Upsert(gr, rec, now)
		}
		for _, n := range g.Objects() {
			v, _ := g.View(n.Key)
			for i, o := range v.Owners {
				if o.Observed == nil && known>>(i%8)&1 != 0 {
					g.Learn(o.Reference.UID, o.At, graph.Fact{State: graph.Absent})
				}
			}
		}
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
		g.Cycles()
		var reports []interface{ Print(io.Writer) error }
		for _, n := range g.Objects() {
			v, ok := g.View(n.Key)
			if !ok {
				t.Fatalf("%v is listed and cannot be seen", n.Key)
			}
			decide.Decide(&v, decide.Options{Timeout: decide.Timeout{}}, now)
			w := Explain(g, &v, decide.Options{Timeout: decide.Timeout{}}, now)
			w.Failed = "the server said:\n" + forged + "\x1b[2J"
			w.Advise("", "")
			reports = append(reports, w)
		}
		tree := NewTree(g, g.View, TreeOptions{}, Basis{}, now)
		linted := NewLint(lint.Input{Graph: g, View: g.View, Now: now}, LintOptions{}, Basis{}, nil)
		dangling := relink.Find(relink.Input{Graph: g, Now: now})
		occupants := map[graph.Coordinates]relink.Occupant{}
		for i, d := range dangling {
			if known>>(i%8)&1 != 0 {
				occupants[d.Owner.At] = relink.Occupant{Record: &graph.Record{Namespace: d.Owner.At.Namespace, Name: d.Owner.At.Name, UID: "now\nFORGED"}}
			}
		}
		relinked := NewRelink(relink.Resolve(g, dangling, occupants), Scope{Namespace: "ns"}, Basis{}, nil)
		status := Status{Waiting: nil, Failing: []Failure{{Object: linted.object(), Error: "no\n" + forged}}}
		status.Waiting, status.WaitingCount = WaitingIn(g, decide.Options{}, now)
		reports = append(reports, tree, linted, relinked, status)
		if some := g.Objects(); len(some) > 0 {
			q := PlanRequest{Targets: []graph.Key{some[int(known)%len(some)].Key}}
			reports = append(reports, PlanOf(foretold(plan.Take(g, q.Targets).Delete(context.Background(), metav1.DeletePropagationForeground, plan.Rules{}, now)), q, now))
		}
		var b bytes.Buffer
		for _, r := range reports {
			b.Reset()
			if err := r.Print(&b); err != nil {
				t.Fatal(err)
			}
			mustBeHarmless(t, b.String())
		}
		for what, print := range map[string]func(io.Writer) error{
			"tree": tree.PrintDOT, "graph": func(out io.Writer) error { return writeDOT(out, g.Around()) },
			"sarif": func(out io.Writer) error { return linted.PrintSARIF(out, "v1") },
		} {
			b.Reset()
			if err := print(&b); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			mustBeHarmless(t, b.String())
		}
		for _, line := range status.Screen("here", 80, 24) {
			mustBeHarmless(t, line)
		}
	})
}

// object is the object of the first finding.
func (l Lint) object() Object {
	if len(l.Findings) == 0 {
		return Object{}
	}
	return l.Findings[0].Object
}

// mustBeHarmless fails if a text for people has characters that change a terminal, or a line that comes from a name.
func mustBeHarmless(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), forged) {
			t.Errorf("a name has made a line of its own: %q in\n%s", line, text)
		}
		if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%q has a character that nobody sees", line)
		}
	}
}

// overGraph is a collector that has only a graph.
type overGraph struct{ g *graph.Graph }

func (c overGraph) Graph() *graph.Graph { return c.g }

func (c overGraph) Status() Status {
	s := Status{Version: StatusVersion, Running: true}
	s.Waiting, s.WaitingCount = WaitingIn(c.g, decide.Options{}, now)
	return s
}

func (c overGraph) Why(k graph.Key) (Why, error) {
	v, ok := c.g.View(k)
	if !ok {
		return Why{}, fmt.Errorf("there is no %v", k)
	}
	return Explain(c.g, &v, decide.Options{}, now), nil
}

func (c overGraph) Tree(o TreeOptions) (Tree, error) {
	for _, k := range o.Keys {
		if _, ok := c.g.View(k); !ok {
			return Tree{}, fmt.Errorf("there is no %v", k)
		}
	}
	return NewTree(c.g, c.g.View, o, Basis{}, now), nil
}

func (c overGraph) Lint(_ context.Context, o LintOptions) Lint {
	return NewLint(lint.Input{Graph: c.g, View: c.g.View, Now: now}, o, Basis{}, nil)
}

func (c overGraph) Plan(_ context.Context, q PlanRequest) (Plan, error) {
	for _, k := range q.Targets {
		if _, ok := c.g.View(k); !ok {
			return Plan{}, fmt.Errorf("there is no %v", k)
		}
	}
	return PlanOf(foretold(plan.Take(c.g, q.Targets).Delete(context.Background(), metav1.DeletionPropagation(q.Policy), plan.Rules{}, now)), q, now), nil
}

// FuzzHandler requests reports in every way. The status code is one that docs/http.md names. The body is JSON, except for the
// graph's, and no request changes anything.
func FuzzHandler(f *testing.F) {
	for _, e := range endpoints {
		f.Add(http.MethodGet, Root+e.name, e.query, true)
		f.Add(http.MethodPost, Root+e.name, e.query, false)
	}
	for _, query := range []string{
		"object=deployments.apps/web&policy=Foreground&limit=1", "object=nodes/edge-1&object=nodes/edge-1&policy=Orphan", "object=/&policy=x", "limit=-1", "limit=99999999999999999999",
		"namespace=shop&limit=1", "group=apps&resource=deployments&uid=web", "uid=r1", "uid=%00&uid=", "%zz", "object=configmaps/r1&object=configmaps/r2&limit=0",
	} {
		for _, e := range endpoints {
			f.Add(http.MethodGet, Root+e.name, query, true)
		}
		f.Add(http.MethodGet, GraphPaths[0], query, true)
	}
	f.Add(http.MethodGet, Root+"../status", "", true)
	f.Add(http.MethodGet, Root+"status/", "", true)
	f.Fuzz(func(t *testing.T, method, path, query string, runs bool) {
		g := shop()
		before, _ := json.Marshal(overGraph{g}.Status())
		h := &Handler{Running: func() (Collector, Absence) {
			if runs {
				return overGraph{g}, Absence{}
			}
			return nil, Absence{Reason: "nobody wanted one"}
		}}
		r := (&http.Request{Method: method, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{}, Body: http.NoBody}).WithContext(t.Context())
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		codes := []int{http.StatusOK, http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusServiceUnavailable}
		if !slices.Contains(codes, w.Code) || (w.Code == http.StatusServiceUnavailable) && runs || w.Code != http.StatusMethodNotAllowed && method != http.MethodGet {
			t.Errorf("%s %s?%s (a collector runs: %v) was answered with %d", method, path, query, runs, w.Code)
		}
		switch w.Header().Get("Content-Type") {
		case "application/json":
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s?%s was answered with %q", path, query, w.Body)
			}
		case "text/vnd.graphviz":
			mustBeHarmless(t, w.Body.String())
		default:
			t.Errorf("%s?%s was answered with the type %q", path, query, w.Header().Get("Content-Type"))
		}
		if err := g.Check(); err != nil {
			t.Error(err)
		}
		if after, _ := json.Marshal(overGraph{g}.Status()); !bytes.Equal(before, after) {
			t.Error("asking has changed something")
		}
	})
}
