package fakeapi

import (
	"encoding/json"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetPaused pauses the collector, or lets it go on.
func (s *Server) SetPaused(paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = paused
	s.happened()
}

// pause answers what asks for the ConfigMap that pauses the collector; false if the
// request is another. It is no recorded call, and no fault meets it.
func (s *Server) pause(w http.ResponseWriter, r *http.Request) bool {
	if !strings.HasSuffix(r.URL.Path, "/namespaces/kube-system/configmaps") || r.URL.Query().Get("fieldSelector") != "metadata.name=reap-gc" {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	s.mu.Lock()
	m, changed := s.pauseMap(), s.changed
	s.mu.Unlock()
	if r.URL.Query().Get("watch") == "" {
		answer(w, http.StatusOK, corev1.ConfigMapList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"},
			Items: []corev1.ConfigMap{m},
		})
		return true
	}
	encoder := json.NewEncoder(w)
	for {
		if encoder.Encode(map[string]any{"type": "MODIFIED", "object": m}) != nil {
			return true
		}
		w.(http.Flusher).Flush()
		for was := m.Data["paused"]; m.Data["paused"] == was; {
			select {
			case <-changed:
			case <-r.Context().Done():
				return true
			}
			s.mu.Lock()
			m, changed = s.pauseMap(), s.changed
			s.mu.Unlock()
		}
	}
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
