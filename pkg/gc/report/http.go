package report

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

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
	// Why explains an object; an error says why there is nothing to say about it.
	Why(graph.Key) (Why, error)
	// Tree shows objects with their owners and dependents; an error says which object there
	// is nothing to say about.
	Tree(TreeOptions) (Tree, error)
	// Lint says what is wrong. Cancelling the context leaves owners unread.
	Lint(context.Context, LintOptions) Lint
	// Plan foretells a deletion; an error says why it cannot.
	Plan(context.Context, PlanRequest) (Plan, error)
	Graph() *graph.Graph
}

// Handler serves reports, as JSON but for the last:
//
//	GET /reap/v1/status
//	GET /reap/v1/why?group=apps&resource=deployments&uid=…
//	GET /reap/v1/tree?object=deployments.apps/UID&object=…&namespace=…&limit=200
//	GET /reap/v1/plan?object=deployments.apps/UID&object=…&policy=Foreground&limit=100
//	GET /reap/v1/lint?namespace=…&limit=100
//	GET /debug/controllers/garbage-collector-controller/graph?uid=…&uid=…
//
// The last is the graph in DOT: what is connected with the UIDs, or all of it.
// It does not check who asks: that is for the server that it is part of. It may be used
// concurrently.
type Handler struct {
	// Running returns the collector that runs, or nil and why none does. It is called at
	// each request, concurrently.
	Running func() (c Collector, absent string)
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
	switch r.URL.Path {
	case Root + "status":
		if c == nil {
			answer(w, http.StatusOK, Status{Version: StatusVersion, Absent: absent})
			return
		}
		answer(w, http.StatusOK, c.Status())
	case Root + "why":
		if c == nil {
			answer(w, http.StatusServiceUnavailable, Problem{absent})
			return
		}
		why(w, r, c)
	case Root + "tree":
		if c == nil {
			answer(w, http.StatusServiceUnavailable, Problem{absent})
			return
		}
		tree(w, r, c)
	case Root + "plan":
		if c == nil {
			answer(w, http.StatusServiceUnavailable, Problem{absent})
			return
		}
		foretell(w, r, c)
	case Root + "lint":
		if c == nil {
			answer(w, http.StatusServiceUnavailable, Problem{absent})
			return
		}
		q := r.URL.Query()
		limit, err := limitOf(q)
		if err != nil {
			answer(w, http.StatusBadRequest, Problem{err.Error()})
			return
		}
		answer(w, http.StatusOK, c.Lint(r.Context(), LintOptions{Namespace: q.Get("namespace"), Limit: limit}))
	case GraphPaths[0], GraphPaths[1]:
		if c == nil {
			answer(w, http.StatusServiceUnavailable, Problem{absent})
			return
		}
		picture(w, r, c)
	default:
		answer(w, http.StatusNotFound, Problem{fmt.Sprintf("there is no report %s; there are status, why, plan, tree and lint below %s", r.URL.Path, Root)})
	}
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

// limitOf returns how much a report lists; 0, as without a limit, is for all.
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
	_ = writeDOT(w, c.Graph().Around(uids...)) // whoever asked has gone
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(body) // whoever asked has gone
}
