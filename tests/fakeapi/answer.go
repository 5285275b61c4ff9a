package fakeapi

import (
	"encoding/json"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client may have gone
}

// fail answers with the Status of an error, in the real server's words.
func fail(w http.ResponseWriter, err *apierrors.StatusError) {
	s := err.ErrStatus
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	answer(w, int(s.Code), s)
}

// Fail answers with a Status of that code and reason.
func Fail(code int, reason metav1.StatusReason) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		fail(w, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "the test wants " + string(reason),
		}})
	}
}

// NotServed answers as a server does that has never heard of the path, or a proxy.
func NotServed(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }

// Later answers that the server is too busy for some seconds.
func Later(seconds int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		Fail(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)(w, r)
	}
}

// EmptyList answers with an empty list that claims the newest possible resourceVersion.
func (s *Server) EmptyList(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	revision := s.revision
	s.mu.Unlock()
	answer(w, http.StatusOK, partialList(nil, revision, ""))
}

func partial(m *metav1.ObjectMeta) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: *m,
	}
}

// whole is everything that the server keeps of an object.
func whole(r *Resource, version string, m *metav1.ObjectMeta, spec, status map[string]any) any {
	return struct {
		metav1.TypeMeta
		Metadata *metav1.ObjectMeta `json:"metadata"`
		Spec     map[string]any     `json:"spec,omitempty"`
		Status   map[string]any     `json:"status,omitempty"`
	}{
		metav1.TypeMeta{APIVersion: schema.GroupVersion{Group: r.Group, Version: version}.String(), Kind: r.Kind}, m, spec, status,
	}
}

func partialList(items []*metav1.ObjectMeta, revision int64, next string) *metav1.PartialObjectMetadataList {
	l := &metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatInt(revision, 10), Continue: next},
		Items:    make([]metav1.PartialObjectMetadata, 0, len(items)),
	}
	for _, m := range items {
		l.Items = append(l.Items, *partial(m))
	}
	return l
}
