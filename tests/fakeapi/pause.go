package fakeapi

import (
	"encoding/json"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// SetPaused pauses the collector, or lets it go on.
func (s *Server) SetPaused(paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = paused
	s.happened()
}

// HidePause hides the ConfigMap that pauses the collector from lists, and makes watches show
// its deletion. Reads still find it.
func (s *Server) HidePause(hidden bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pauseHidden = hidden
	s.happened()
}

// pause answers requests for the ConfigMap that pauses the collector; it returns false for
// any other request. These calls are not recorded, and no Fault is asked about them.
func (s *Server) pause(w http.ResponseWriter, r *http.Request) bool {
	const all = "/api/v1/namespaces/kube-system/configmaps"
	switch q := r.URL.Query(); {
	case r.URL.Path == all+"/reap-gc" && r.Method == http.MethodGet:
		m, _, _ := s.pauseState()
		answer(w, http.StatusOK, m)
	case r.URL.Path != all || q.Get("fieldSelector") != "metadata.name=reap-gc":
		return false
	case q.Get("watch") != "":
		s.watchPause(w, r)
	default:
		m, hidden, _ := s.pauseState()
		l := corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
		if !hidden {
			l.Items = append(l.Items, m)
		}
		answer(w, http.StatusOK, l)
	}
	return true
}

func (s *Server) watchPause(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	for shown := ""; ; {
		m, hidden, changed := s.pauseState()
		kind := watch.Modified
		if hidden {
			kind = watch.Deleted
		}
		if is := string(kind) + m.Data["paused"]; is != shown {
			shown = is
			if encoder.Encode(map[string]any{"type": kind, "object": m}) != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func (s *Server) pauseState() (m corev1.ConfigMap, hidden bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pauseMap(), s.pauseHidden, s.changed
}

// pauseMap is the ConfigMap. s.mu is held.
func (s *Server) pauseMap() corev1.ConfigMap {
	m := corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "reap-gc", UID: "pause", ResourceVersion: "1"},
		Data:       map[string]string{"paused": "false"},
	}
	if s.paused {
		m.Data["paused"] = "true"
		m.ResourceVersion = "2"
	}
	return m
}
