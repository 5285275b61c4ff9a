package fakeapi

import (
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// discover answers in the old, unaggregated form, to which clients fall back.
func (s *Server) discover(w http.ResponseWriter, path string) {
	s.mu.Lock()
	resources := s.servedNow()
	s.mu.Unlock()
	switch path {
	case "api":
		answer(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
		return
	case "apis":
		answer(w, http.StatusOK, groupList(resources))
		return
	}
	gv := strings.TrimPrefix(strings.TrimPrefix(path, "apis/"), "api/")
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv}
	for _, r := range resources {
		for _, v := range r.Versions {
			if gv == (schema.GroupVersion{Group: r.Group, Version: v}).String() {
				list.APIResources = append(list.APIResources, metav1.APIResource{
					Name: r.Name, Kind: r.Kind, Namespaced: r.Namespaced,
					Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "watch"},
				})
			}
		}
	}
	if list.APIResources == nil {
		http.Error(w, "404 page not found", http.StatusNotFound)
		return
	}
	answer(w, http.StatusOK, list)
}

func groupList(resources []*Resource) metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, r := range resources {
		if r.Group == "" || slices.ContainsFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == r.Group }) {
			continue
		}
		g := metav1.APIGroup{Name: r.Group}
		for _, v := range r.Versions {
			g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: r.Group + "/" + v, Version: v})
		}
		g.PreferredVersion = g.Versions[0]
		list.Groups = append(list.Groups, g)
	}
	return list
}

// apiServices says which API versions another server answers for.
func (s *Server) apiServices(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := []any{}
	for _, r := range s.servedNow() {
		var service any
		if r.Aggregated {
			service = map[string]string{"name": "another", "namespace": "somewhere"}
		}
		for _, v := range r.Versions {
			items = append(items, map[string]any{"spec": map[string]any{"group": r.Group, "version": v, "service": service}})
		}
	}
	answer(w, http.StatusOK, map[string]any{"items": items})
}
