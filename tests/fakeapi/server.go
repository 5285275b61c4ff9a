// Package fakeapi is a small API server in memory, for tests of the collector: it
// keeps metadata and a status, and follows the real one in what the collector depends
// on: resourceVersions, preconditions, finalizers and propagation policies, paged
// lists, watches from a version, the details of a NotFound.
//
// It records every call, and a Fault may answer any of them in its place. What
// users do goes past HTTP, through the methods Create, Update and Delete: every
// recorded call is the collector's.
package fakeapi

import (
	"net/http"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is a kind that the server serves.
type Resource struct {
	Group, Name, Kind string
	Versions          []string // the preferred one first
	Namespaced        bool
	// Aggregated is true if another server is said to answer for the group.
	Aggregated bool
	// OrphanByDefault is true if a delete without a policy orphans, as of a Job.
	OrphanByDefault bool

	unserved bool // though it is defined and has objects
}

// GroupResource returns the resource's name.
func (r *Resource) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Name}
}

// APIVersion returns the preferred version, with the group.
func (r *Resource) APIVersion() string {
	return schema.GroupVersion{Group: r.Group, Version: r.Versions[0]}.String()
}

func builtIn() []*Resource {
	return []*Resource{
		{Name: "configmaps", Kind: "ConfigMap", Versions: []string{"v1"}, Namespaced: true},
		{Name: "secrets", Kind: "Secret", Versions: []string{"v1"}, Namespaced: true},
		{Name: "pods", Kind: "Pod", Versions: []string{"v1"}, Namespaced: true},
		{Name: "nodes", Kind: "Node", Versions: []string{"v1"}},
		{Name: "events", Kind: "Event", Versions: []string{"v1"}, Namespaced: true},
		{Group: "apps", Name: "deployments", Kind: "Deployment", Versions: []string{"v1", "v1beta1"}, Namespaced: true},
		{Group: "apps", Name: "replicasets", Kind: "ReplicaSet", Versions: []string{"v1", "v1beta1"}, Namespaced: true},
		{Group: "batch", Name: "jobs", Kind: "Job", Versions: []string{"v1"}, Namespaced: true, OrphanByDefault: true},
		{Group: "apiextensions.k8s.io", Name: definitions, Kind: "CustomResourceDefinition", Versions: []string{"v1"}},
	}
}

// Fault is asked about every call before it is served. It may return a handler
// that answers instead, or block, which makes the server slow; nil serves the call.
type Fault func(Call) http.HandlerFunc

// Server is the API server. Make it with New.
type Server struct {
	// mu protects what follows.
	mu        sync.Mutex
	resources []*Resource
	objects   map[objectKey]*metav1.ObjectMeta // replaced, never changed
	statuses  map[objectKey]map[string]any     // of those objects that have one; likewise
	named     map[string]int                   // how many objects of a name there have been
	revision  int64
	own       map[schema.GroupResource]int64 // revisions of resources with a store of their own
	history   []event
	serving   bool  // a call about a single object is being served
	compacted int64 // watches from before this revision are refused
	stale     int64 // not 0: the newest revision that lists of any age and watches show
	lose      func(*Resource, *metav1.ObjectMeta) bool
	watches   map[*watching]bool
	pages     map[string][]*metav1.ObjectMeta // rests of lists, by continue token
	pageSize  int
	calls     []*Call
	inFlight  int
	warnings  []corev1.Event
	fault     Fault
	paused    bool
	// pauseHidden is true while lists and watches do not show the pause's ConfigMap.
	pauseHidden bool
	changed     chan struct{} // closed and replaced when anything has happened
}

// New returns a server that serves a few kinds and holds no object.
func New() *Server {
	return &Server{
		resources: builtIn(),
		objects:   map[objectKey]*metav1.ObjectMeta{},
		statuses:  map[objectKey]map[string]any{},
		named:     map[string]int{},
		own:       map[schema.GroupResource]int64{},
		watches:   map[*watching]bool{},
		pages:     map[string][]*metav1.ObjectMeta{},
		pageSize:  500,
		changed:   make(chan struct{}),
	}
}

// happened wakes the goroutines that wait for a change. s.mu is held.
func (s *Server) happened() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Changed returns a channel that is closed when anything happens after the call:
// a write, or the end of a request.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// SetFault replaces the fault; nil ends it.
func (s *Server) SetFault(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Resources returns what is served at the moment, without events.
func (s *Server) Resources() []*Resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*Resource
	for _, r := range s.servedNow() {
		if r.Name != "events" {
			all = append(all, r)
		}
	}
	return all
}

// byName returns the resource with a plural name, or nil. s.mu is held.
func (s *Server) byName(name string) *Resource {
	for _, r := range s.resources {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// served returns the resource of a path, or nil. It returns nil also if the path has a namespace and the resource is
// cluster-scoped, or the other way round, unless the path lists all namespaces. s.mu is held.
func (s *Server) served(c *Call) *Resource {
	for _, r := range s.servedNow() {
		if r.Group == c.Group && r.Name == c.Resource && ((c.Namespace != "") == r.Namespaced || r.Namespaced && c.Name == "") {
			for _, v := range r.Versions {
				if v == c.Version {
					return r
				}
			}
		}
	}
	return nil
}

// ServeHTTP answers the collector.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.pause(w, r) {
		return
	}
	c := callOf(r)
	rec := &statusRecorder{ResponseWriter: w}
	fault := s.begin(c)
	defer func() { s.end(c, rec.code) }()
	if fault != nil {
		if h := fault(*c); h != nil {
			h(rec, r)
			return
		}
	}
	if c.Verb == "discover" {
		s.discover(rec, strings.Trim(r.URL.Path, "/"))
		return
	}
	s.mu.Lock()
	res := s.served(c)
	s.mu.Unlock()
	switch {
	case c.Resource == apiServices && c.Verb == "list" && c.whole:
		s.apiServices(rec)
	case res == nil:
		http.NotFound(rec, r)
	case c.Verb == "watch":
		s.watch(rec, r, res, c)
	case c.Verb == "list":
		s.list(rec, res, c)
	case c.Verb == "create":
		s.takeEvent(rec, c)
	default:
		s.single(rec, res, c)
	}
}
