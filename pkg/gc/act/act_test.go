package act

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// against returns an Actor whose calls handler answers.
func against(t *testing.T, handler http.HandlerFunc) *Actor {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	clients, err := ClientsFor(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return New(clients, func() error { return nil }, func(Verb, Outcome) {})
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func status(code int, reason metav1.StatusReason, details *metav1.StatusDetails) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		answer(w, code, metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
			Code: int32(code), Reason: reason, Message: "no", Details: details,
		})
	}
}

func found(m metav1.ObjectMeta) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
			ObjectMeta: m,
		})
	}
}

// Only one kind of answer proves that an owner is absent. An answer that is misread
// here deletes an object that is still needed.
func TestOnlyTheResourcesOwnNotFoundProvesAbsence(t *testing.T) {
	own := &metav1.StatusDetails{Name: "owner", Kind: "configmaps"}
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   graph.FactState
	}{
		"the resource has no such object": {status(404, metav1.StatusReasonNotFound, own), graph.Absent},
		"another object has the name":     {found(metav1.ObjectMeta{Name: "owner", Namespace: "ns", UID: "other"}), graph.Absent},
		"it is there":                     {found(metav1.ObjectMeta{Name: "owner", Namespace: "ns", UID: "uid"}), graph.Present},

		"nobody serves the path":    {func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) }, graph.Unproved},
		"an empty 404":              {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, graph.Unproved},
		"a proxy's page":            {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404); _, _ = io.WriteString(w, "<html>") }, graph.Unproved},
		"not found without details": {status(404, metav1.StatusReasonNotFound, nil), graph.Unproved},
		"not found of another name": {status(404, metav1.StatusReasonNotFound, &metav1.StatusDetails{Name: "x", Kind: "configmaps"}), graph.Unproved},
		"not found of another kind": {status(404, metav1.StatusReasonNotFound, &metav1.StatusDetails{Name: "owner", Kind: "namespaces"}), graph.Unproved},
		"not found of another group": {
			status(404, metav1.StatusReasonNotFound, &metav1.StatusDetails{Name: "owner", Group: "x.io", Kind: "configmaps"}), graph.Unproved,
		},
		"not found that a server passes on": {
			status(404, metav1.StatusReasonNotFound, &metav1.StatusDetails{
				Name: "owner", Kind: "configmaps", Causes: []metav1.StatusCause{{Type: metav1.CauseTypeUnexpectedServerResponse}},
			}), graph.Unproved,
		},
		"gone":         {status(410, metav1.StatusReasonGone, own), graph.Unproved},
		"forbidden":    {status(403, metav1.StatusReasonForbidden, own), graph.Unproved},
		"broken":       {status(500, metav1.StatusReasonInternalError, own), graph.Unproved},
		"overloaded":   {status(503, metav1.StatusReasonServiceUnavailable, own), graph.Unproved},
		"unauthorized": {status(401, metav1.StatusReasonUnauthorized, own), graph.Unproved},
		"cut off":      {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{") }, graph.Unproved},
	} {
		t.Run(name, func(t *testing.T) {
			var path string
			a := against(t, func(w http.ResponseWriter, r *http.Request) {
				path = r.URL.RequestURI()
				tc.answer(w, r)
			})
			now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			fact, err := a.Verify(t.Context(), graph.OwnerView{
				Reference: graph.Reference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "uid"},
				Resource:  &graph.Resource{Name: "configmaps", Kind: "ConfigMap", Versions: []string{"v1"}, Namespaced: true},
				At:        graph.Coordinates{Kind: "ConfigMap", Namespace: "ns", Name: "owner"},
			}, now)
			if fact.State != tc.want || (err != nil) != (tc.want == graph.Unproved) {
				t.Errorf("proved %v, %v; want %v", fact.State, err, tc.want)
			}
			if fact.State == graph.Present && !fact.Seen.Equal(now) {
				t.Errorf("the owner was seen at %v, want %v", fact.Seen, now)
			}
			// With a resourceVersion, a cache could answer instead of the store.
			if want := "/api/v1/namespaces/ns/configmaps/owner"; path != want {
				t.Errorf("asked %s, want %s", path, want)
			}
		})
	}
}

// Users choose the names in references. A name must not become a path that the
// collector may read and the reference's author may not.
func TestOwnerWhoseNameIsAPathIsNotReadAtAll(t *testing.T) {
	a := against(t, func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a name that is a path was read: %s", r.URL.RequestURI())
	})
	for _, name := range []string{"owner/proxy/secret", "../secrets/owner", "..", ".", "owner%2Fproxy"} {
		fact, err := a.Verify(t.Context(), graph.OwnerView{
			Reference: graph.Reference{APIVersion: "v1", Kind: "Pod", Name: name, UID: "uid"},
			Resource:  &graph.Resource{Name: "pods", Kind: "Pod", Versions: []string{"v1"}, Namespaced: true},
			At:        graph.Coordinates{Kind: "Pod", Namespace: "ns", Name: name},
		}, time.Now())
		if err == nil || fact.State != graph.Unproved {
			t.Errorf("%q: %+v, %v", name, fact, err)
		}
	}
}

// References are dropped by whole value: if two references differ only in a flag, one
// can be proved dangling while the other is still needed.
func TestDropReferencesLeavesAllOthers(t *testing.T) {
	yes, no := true, false
	refs := []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "1"},
		{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "1", BlockOwnerDeletion: &yes},
		{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "1", BlockOwnerDeletion: &no},
		{APIVersion: "v1", Kind: "Secret", Name: "a", UID: "1"},
		{APIVersion: "v1", Kind: "ConfigMap", Name: "b", UID: "2", Controller: &yes},
	}
	for drop := range 1 << len(refs) {
		var want []metav1.OwnerReference
		var gone []graph.Reference
		for i := range refs {
			if drop&(1<<i) != 0 {
				gone = append(gone, graph.ReferenceOf(refs[i]))
			} else {
				want = append(want, refs[i])
			}
		}
		a := against(t, func(w http.ResponseWriter, r *http.Request) {
			var patch struct {
				Metadata metav1.ObjectMeta `json:"metadata"`
			}
			if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
				t.Error(err)
			}
			m := patch.Metadata
			if m.UID != "u" || m.ResourceVersion != "7" || r.Header.Get("Content-Type") != "application/merge-patch+json" {
				t.Errorf("patched %+v as %s", m, r.Header.Get("Content-Type"))
			}
			same := func(x, y metav1.OwnerReference) bool { return graph.ReferenceOf(x) == graph.ReferenceOf(y) }
			if !slices.EqualFunc(m.OwnerReferences, want, same) {
				t.Errorf("dropping %v left %v", gone, m.OwnerReferences)
			}
			found(m)(w, r)
		})
		rec := graph.RecordOf(&metav1.ObjectMeta{Namespace: "ns", Name: "n", UID: "u", ResourceVersion: "7", OwnerReferences: refs})
		if got, err := a.DropReferences(t.Context(), configMaps, rec, gone); got != Done || err != nil {
			t.Fatalf("outcome %v, %v", got, err)
		}
	}
}

// TestSetReferencesNamesTheObjectThatWasDecidedOn: the patch carries the object's UID
// and resourceVersion, and all fields of each reference.
func TestSetReferencesNamesTheObjectThatWasDecidedOn(t *testing.T) {
	yes, no := true, false
	refs := []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "1", BlockOwnerDeletion: &no, Controller: &yes},
		{APIVersion: "apps/v1", Kind: "Deployment", Name: "b", UID: "2"},
	}
	a := against(t, func(w http.ResponseWriter, r *http.Request) {
		var patch struct{ Metadata metav1.ObjectMeta }
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
			t.Error(err)
		}
		m := patch.Metadata
		if m.UID != "u" || m.ResourceVersion != "7" || !reflect.DeepEqual(m.OwnerReferences, refs) {
			t.Errorf("the patch is %+v", m)
		}
		found(m)(w, r)
	})
	var set []graph.Reference
	for _, r := range refs {
		set = append(set, graph.ReferenceOf(r))
	}
	if got, err := a.SetReferences(t.Context(), configMaps, aRecord(), set); got != Done || err != nil {
		t.Fatalf("outcome %v, %v", got, err)
	}
}

func TestErrorsNameWhatWasTried(t *testing.T) {
	a := against(t, status(500, metav1.StatusReasonInternalError, nil))
	_, _, err := a.Read(t.Context(), configMaps, "ns", "n", "u")
	if want := "configmaps ns/n"; !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("%v does not name %s", err, want)
	}
}

func TestRemoveFinalizerLeavesAllOthers(t *testing.T) {
	a := against(t, func(w http.ResponseWriter, r *http.Request) {
		var patch struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
			t.Error(err)
		}
		if m := patch.Metadata; m.UID != "u" || m.ResourceVersion != "7" || !slices.Equal(m.Finalizers, []string{"b", "a"}) {
			t.Errorf("the patch is %+v", m)
		}
		found(patch.Metadata)(w, r)
	})
	live := &Object{Resource: configMaps, Metadata: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "n", UID: "u", ResourceVersion: "7", Finalizers: []string{"b", metav1.FinalizerDeleteDependents, "a"},
	}}}
	if got, err := a.RemoveFinalizer(t.Context(), live, metav1.FinalizerDeleteDependents); got != Done || err != nil {
		t.Fatalf("outcome %v, %v", got, err)
	}
	if len(live.Metadata.Finalizers) != 3 {
		t.Error("the live read was changed")
	}
}

func TestListReadsAllPagesOrFails(t *testing.T) {
	pages := 0
	a := against(t, func(w http.ResponseWriter, r *http.Request) {
		next := ""
		switch r.URL.Query().Get("continue") {
		case "":
			next = "more"
		case "more":
			if pages++; pages > 1 {
				status(410, metav1.StatusReasonExpired, nil)(w, r)
				return
			}
		}
		answer(w, http.StatusOK, metav1.PartialObjectMetadataList{
			TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
			ListMeta: metav1.ListMeta{Continue: next},
			Items:    []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "n" + next}}},
		})
	})
	var names []string
	each := func(r *graph.Record) { names = append(names, r.Name) }
	if err := a.List(t.Context(), configMaps, "ns", each); err != nil || !slices.Equal(names, []string{"nmore", "n"}) {
		t.Errorf("listed %v: %v", names, err)
	}
	if err := a.List(t.Context(), configMaps, "ns", each); err == nil {
		t.Error("half a list passes for a whole one")
	}
}

// TestReadReturnsOnlyTheNamedObject: a read of an object never returns another object of the same name.
func TestReadReturnsOnlyTheNamedObject(t *testing.T) {
	gone := &metav1.StatusDetails{Name: "n", Kind: "configmaps"}
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   Existence
		fails  bool
	}{
		{"it", found(metav1.ObjectMeta{Namespace: "ns", Name: "n", UID: "u"}), Present, false},
		{"another of its name", found(metav1.ObjectMeta{Namespace: "ns", Name: "n", UID: "other"}), Absent, false},
		{"none of its name", status(404, metav1.StatusReasonNotFound, gone), Absent, false},
		{"an error", status(500, metav1.StatusReasonInternalError, nil), Unknown, true},
	} {
		a := against(t, c.answer)
		for how, read := range map[string]func(context.Context, schema.GroupVersionResource, string, string, types.UID) (*Object, Existence, error){"metadata": a.Read, "status": a.ReadStatus} {
			live, is, err := read(t.Context(), configMaps, "ns", "n", "u")
			if is != c.want || (err != nil) != c.fails || (live != nil) != (is == Present) {
				t.Errorf("%s, %s: %v, %v, %v", c.name, how, live, is, err)
			}
		}
	}
}
