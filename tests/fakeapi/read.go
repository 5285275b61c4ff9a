package fakeapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// list answers page by page. The pages of one list show one moment.
func (s *Server) list(w http.ResponseWriter, r *Resource, c *Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items, revision := s.of(r, c.Namespace), s.revisionOf(r)
	if s.stale > 0 && c.Query.Get("resourceVersion") == "0" {
		items, revision = s.at(r, c.Namespace, s.stale), s.stale
	}
	if v, err := strconv.ParseInt(c.Query.Get("resourceVersion"), 10, 64); err == nil && v > revision {
		tooLarge := apierrors.NewTimeoutError("Too large resource version", 1)
		tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
		fail(w, tooLarge)
		return
	}
	if token := c.Query.Get("continue"); token != "" {
		rest, ok := s.pages[token]
		if !ok {
			fail(w, apierrors.NewResourceExpired("The provided continue parameter is too old"))
			return
		}
		items = rest
		if _, err := fmt.Sscanf(token, "%d", &revision); err != nil {
			fail(w, apierrors.NewBadRequest("continue: "+err.Error()))
			return
		}
	}
	next := ""
	if limit, err := strconv.Atoi(c.Query.Get("limit")); err == nil && limit > 0 {
		if limit = min(limit, s.pageSize); len(items) > limit {
			next = fmt.Sprintf("%d-%d", revision, len(s.pages))
			s.pages[next] = items[limit:]
			items = items[:limit]
		}
	}
	answer(w, http.StatusOK, partialList(items, revision, next))
}

// SetStale makes the server lag behind others: watches, and lists that accept an answer of any age, show nothing newer
// than a revision. Reads from a quorum are up to date. 0 ends it.
func (s *Server) SetStale(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stale = revision
	s.happened()
}

// at returns a resource's objects as they were at a revision. s.mu is held.
func (s *Server) at(r *Resource, namespace string, revision int64) []*metav1.ObjectMeta {
	then := &Server{objects: map[objectKey]*metav1.ObjectMeta{}}
	for _, e := range s.history {
		if k := (objectKey{e.resource.GroupResource(), e.meta.Namespace, e.meta.Name}); e.revision > revision {
			break
		} else if then.objects[k] = e.meta; e.kind == deleted {
			delete(then.objects, k)
		}
	}
	return then.of(r, namespace)
}

// SetPageSize makes pages smaller than clients ask for.
func (s *Server) SetPageSize(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pageSize = n
}

// Compact forgets the past: continue tokens and watches from before are refused.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++ // so that no watch has reached it
	s.compacted = s.revision
	for token := range s.pages {
		s.pages[token+" expired"] = nil // keeps new tokens apart from old ones
	}
	maps.DeleteFunc(s.pages, func(_ string, rest []*metav1.ObjectMeta) bool { return rest != nil })
}

// watching is one watch under way.
type watching struct {
	resource string
	end      chan struct{}
}

// DropWatches ends the watches of a resource, or all if it is empty, as a proxy
// that restarts would.
func (s *Server) DropWatches(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		if resource == "" || w.resource == resource {
			close(w.end)
			delete(s.watches, w)
		}
	}
}

// Watching counts the watches under way.
func (s *Server) Watching() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watches)
}

// LoseEvents hides events for which lose returns true from watches, until it is set to
// nil. The changes themselves are made.
func (s *Server) LoseEvents(lose func(*Resource, *metav1.ObjectMeta) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose = lose
}

func (s *Server) watch(w http.ResponseWriter, req *http.Request, r *Resource, c *Call) {
	from, err := strconv.ParseInt(c.Query.Get("resourceVersion"), 10, 64)
	s.mu.Lock()
	compacted := s.compacted
	this := &watching{r.Name, make(chan struct{})}
	s.watches[this] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, this)
	}()
	switch {
	case err != nil:
		fail(w, apierrors.NewBadRequest("resourceVersion: "+err.Error()))
		return
	case from < compacted:
		fail(w, apierrors.NewResourceExpired("too old resource version"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	encoder := json.NewEncoder(w)
	for next := 0; ; {
		s.mu.Lock()
		next = min(next, len(s.history)) // it may have been rolled back
		news, changed, served := s.history[next:], s.changed, s.served(c) != nil
		if s.stale > 0 {
			news = slices.DeleteFunc(slices.Clone(news), func(e event) bool { return e.revision > s.stale })
		}
		next += len(news)
		s.mu.Unlock()
		for _, e := range news {
			if e.revision <= from || e.lost || e.resource.GroupResource() != r.GroupResource() || c.Namespace != "" && c.Namespace != e.meta.Namespace {
				continue
			}
			if encoder.Encode(map[string]any{"type": e.kind, "object": partial(e.meta)}) != nil {
				return
			}
		}
		w.(http.Flusher).Flush()
		if !served {
			return
		}
		select {
		case <-changed:
		case <-this.end:
			return
		case <-req.Context().Done():
			return
		}
	}
}
