package fakeapi

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Call is one request.
type Call struct {
	Verb                     string // get, list, watch, delete, patch, create, discover
	Group, Version, Resource string
	Namespace, Name          string
	Query                    url.Values
	// Detail is the policy of a delete, the fields of a patch, the path of discovery.
	Detail string
	Code   int // of the answer; 0 until it has ended
	body   []byte
	whole  bool // more than metadata is asked for
}

// String is the form in which tests name calls: "delete pods ns/web Background".
func (c Call) String() string {
	parts := []string{c.Verb}
	if c.Resource != "" {
		parts = append(parts, c.Resource)
	}
	switch {
	case c.Namespace != "" && c.Name != "":
		parts = append(parts, c.Namespace+"/"+c.Name)
	case c.Namespace+c.Name != "":
		parts = append(parts, c.Namespace+c.Name)
	}
	if c.Detail != "" {
		parts = append(parts, c.Detail)
	}
	if c.Code >= 400 {
		parts = append(parts, http.StatusText(c.Code))
	}
	return strings.Join(parts, " ")
}

// ByMonitor is true for the calls that only keep the graph up to date: watches, discovery,
// and lists that accept an answer of any age.
func (c Call) ByMonitor() bool {
	return c.Verb == "watch" || c.Verb == "discover" || c.Resource == "apiservices" ||
		c.Verb == "list" && c.Query.Get("resourceVersion") != ""
}

func callOf(r *http.Request) *Call {
	c := &Call{Query: r.URL.Query(), whole: !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		c.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		c.Group, c.Version, parts = parts[1], parts[2], parts[3:]
	default:
		c.Verb, c.Detail = "discover", strings.Join(parts, "/")
		return c
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		c.Namespace, parts = parts[1], parts[2:]
	}
	c.Resource = parts[0]
	if len(parts) > 1 {
		c.Name = parts[1]
	}
	var err error
	if c.body, err = io.ReadAll(r.Body); err != nil {
		c.body = []byte("cut short") // which does not parse; an empty one would delete without preconditions
	}
	switch r.Method {
	case http.MethodPost:
		c.Verb = "create"
	case http.MethodDelete:
		c.Verb = "delete"
		if o, err := DeleteOptions(c.body); err == nil && o.PropagationPolicy != nil {
			c.Detail = string(*o.PropagationPolicy)
		}
	case http.MethodPatch:
		c.Verb = "patch"
		var p struct{ Metadata map[string]any }
		if json.NewDecoder(bytes.NewReader(c.body)).Decode(&p) == nil {
			delete(p.Metadata, "uid")
			delete(p.Metadata, "resourceVersion")
			c.Detail = strings.Join(slices.Sorted(maps.Keys(p.Metadata)), ",")
		}
	default:
		c.Verb = "get"
		if c.Query.Get("watch") != "" {
			c.Verb = "watch"
		} else if c.Name == "" {
			c.Verb = "list"
		}
	}
	return c
}

// counts is true for calls that InFlight counts.
func (c *Call) counts() bool { return c.Verb != "watch" && c.Verb != "discover" }

func (s *Server) begin(c *Call) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
	if c.counts() {
		s.inFlight++
	}
	return s.fault
}

func (s *Server) end(c *Call, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Code = max(code, http.StatusOK)
	if c.counts() {
		s.inFlight--
	}
	s.happened()
}

// Calls returns the calls since the n-th, in the order in which they began.
func (s *Server) Calls(n int) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Call
	for _, c := range s.calls[n:] {
		all = append(all, *c)
	}
	return all
}

// InFlight counts the requests that have not been answered, without watches.
func (s *Server) InFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlight
}

// statusRecorder remembers the code of an answer.
type statusRecorder struct {
	http.ResponseWriter
	code int
}

func (r *statusRecorder) WriteHeader(code int) {
	r.code = code
	r.ResponseWriter.WriteHeader(code)
}

func (r *statusRecorder) Flush() { r.ResponseWriter.(http.Flusher).Flush() }
