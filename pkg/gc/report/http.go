package report

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/escape"
	"github.com/reap-dev/reap/pkg/gc/graph"
)

// Root is the path below which reports are served.
const Root = "/reap/v1/"

// GraphPaths are where kube-controller-manager serves its collector's graph, under the
// collector's present name and its old one.
var GraphPaths = []string{
	"/debug/controllers/garbage-collector-controller/graph",
	"/debug/controllers/garbagecollector/graph",
}

// Collector is what a Handler asks.
type Collector interface {
	Status() Status
	// Why explains an object; an error says why it cannot.
	Why(graph.Key) (Why, error)
	// Tree shows objects with their owners and dependents; an error names an object that is not known.
	Tree(TreeOptions) (Tree, error)
	// Lint says what is wrong. Cancelling the context leaves owners unread.
	Lint(context.Context, LintOptions) Lint
	// Plan foretells a deletion; an error says why it cannot.
	Plan(context.Context, PlanRequest) (Plan, error)
	Graph() *graph.Graph
}

// An endpoint is a path below Root. docs/http.md lists all of them.
type endpoint struct {
	name string
	// query is an example of the parameters, all that there are.
	query string
	// does says what the answer is, and which command shows it.
	does string
	// serve answers. c is nil if no collector runs, and then absent says why.
	serve func(w http.ResponseWriter, r *http.Request, c Collector, absent Absence)
}

// endpoints are all of them, in the order of docs/http.md.
var endpoints = []endpoint{
	{"status", "", "what the collector is doing, as `reap status -o json` prints it; without a collector `running` is false and `absent` says why", showStatus},
	{"why", "group=apps&resource=deployments&uid=UID", "one object explained, as `reap why -o json`", running(why)},
	{"tree", "object=deployments.apps/UID&object=…&namespace=NAME&limit=200", "owners and dependents of the objects, or of a namespace, as `reap tree -o json`; limit 0, the default, is for all", running(tree)},
	{"plan", "object=deployments.apps/UID&object=…&policy=Foreground&limit=100", "what a deletion of the objects would do, as `reap plan delete -o json`; the policy is Background, Foreground or Orphan, and without it each resource's own", running(foretell)},
	{"lint", "namespace=NAME&limit=100", "what is wrong with owner references, as `reap lint -o json`; without a namespace in all of them", running(problems)},
}

// Handler serves reports, as JSON: the endpoints below Root. Below GraphPaths it serves the graph in DOT: the
// objects that are connected with the UIDs of uid=…, or all of them.
//
// It does not check who asks: the server that it is part of does. It may be used
// concurrently.
type Handler struct {
	// Running returns the collector that runs, or nil and why none does. It is called at
	// each request, concurrently.
	Running func() (c Collector, absent Absence)
}

// Absence is why no collector runs in a server. Elsewhere is true if another server's collector works on the same objects.
// Disabled names the controllers that do not run in the server either.
type Absence struct {
	Reason    string
	Elsewhere bool
	Disabled  []string
}

// Problem is the answer when there is nothing to report.
type Problem struct {
	Error string `json:"error"`
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		answer(w, http.StatusMethodNotAllowed, Problem{"reports can only be read"})
		return
	}
	c, absent := h.Running()
	if slices.Contains(GraphPaths, r.URL.Path) {
		running(picture)(w, r, c, absent)
		return
	}
	var names []string
	for _, e := range endpoints {
		if r.URL.Path == Root+e.name {
			e.serve(w, r, c, absent)
			return
		}
		names = append(names, e.name)
	}
	answer(w, http.StatusNotFound, Problem{fmt.Sprintf("there is no report %s; below %s there are: %s", r.URL.Path, Root, strings.Join(names, ", "))})
}

// running serves what only a collector that runs can answer.
func running(serve func(http.ResponseWriter, *http.Request, Collector)) func(http.ResponseWriter, *http.Request, Collector, Absence) {
	return func(w http.ResponseWriter, r *http.Request, c Collector, absent Absence) {
		if c == nil {
			answer(w, http.StatusServiceUnavailable, Problem{absent.Reason})
			return
		}
		serve(w, r, c)
	}
}

func showStatus(w http.ResponseWriter, _ *http.Request, c Collector, absent Absence) {
	if c == nil {
		answer(w, http.StatusOK, Status{Version: StatusVersion, Absent: absent.Reason, Elsewhere: absent.Elsewhere, Disabled: absent.Disabled})
		return
	}
	answer(w, http.StatusOK, c.Status())
}

func problems(w http.ResponseWriter, r *http.Request, c Collector) {
	q := r.URL.Query()
	limit, err := limitOf(q)
	if err != nil {
		answer(w, http.StatusBadRequest, Problem{err.Error()})
		return
	}
	answer(w, http.StatusOK, c.Lint(r.Context(), LintOptions{Namespace: q.Get("namespace"), Limit: limit}))
}

func why(w http.ResponseWriter, r *http.Request, c Collector) {
	q := r.URL.Query()
	k := graph.Key{Resource: schema.GroupResource{Group: q.Get("group"), Resource: q.Get("resource")}, UID: types.UID(q.Get("uid"))}
	if k.Resource.Resource == "" || k.UID == "" {
		answer(w, http.StatusBadRequest, Problem{"give the object's resource (and group) and uid"})
		return
	}
	said, err := c.Why(k)
	if err != nil {
		answer(w, http.StatusNotFound, Problem{err.Error()})
		return
	}
	answer(w, http.StatusOK, said)
}

func tree(w http.ResponseWriter, r *http.Request, c Collector) {
	q := r.URL.Query()
	limit, err := limitOf(q)
	o := TreeOptions{Namespace: q.Get("namespace"), Limit: limit}
	for _, named := range q["object"] {
		resource, uid, _ := strings.Cut(named, "/")
		if resource == "" || uid == "" {
			err = fmt.Errorf("object=%s: give an object as its resource, with its group, and UID: deployments.apps/UID", named)
		}
		o.Keys = append(o.Keys, graph.Key{Resource: schema.ParseGroupResource(resource), UID: types.UID(uid)})
	}
	if err != nil {
		answer(w, http.StatusBadRequest, Problem{err.Error()})
		return
	}
	t, err := c.Tree(o)
	if err != nil {
		answer(w, http.StatusNotFound, Problem{err.Error()})
		return
	}
	answer(w, http.StatusOK, t)
}

// limitOf returns how many entries a report lists; 0, also if no limit is given, lists all.
func limitOf(q url.Values) (int, error) {
	text := q.Get("limit")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("limit=%s: give a number, or 0 for all", text)
	}
	return n, nil
}

func picture(w http.ResponseWriter, r *http.Request, c Collector) {
	var uids []types.UID
	for _, uid := range r.URL.Query()["uid"] {
		uids = append(uids, types.UID(uid))
	}
	w.Header().Set("Content-Type", "text/vnd.graphviz")
	_ = writeDOT(w, c.Graph().Around(uids...)) // the client has gone
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = escape.WriteJSON(w, body, "  ") // the client has gone
}
