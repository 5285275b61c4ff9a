package act

import (
	"io"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/fakeapi"
)

func TestDeleteNamesWhatWasDecidedOn(t *testing.T) {
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   Outcome
	}{
		"deleted":            {status(200, "", nil), Done},
		"gone":               {status(404, metav1.StatusReasonNotFound, &metav1.StatusDetails{Name: "n", Kind: "configmaps"}), Gone},
		"changed":            {status(409, metav1.StatusReasonConflict, &metav1.StatusDetails{Name: "n", Kind: "configmaps"}), Changed},
		"denied with a 409":  {status(409, metav1.StatusReasonConflict, nil), Failed},
		"of another object":  {status(409, metav1.StatusReasonConflict, &metav1.StatusDetails{Name: "policy", Kind: "policies"}), Failed},
		"generic 404":        {func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) }, Failed},
		"denied":             {status(403, metav1.StatusReasonForbidden, nil), Failed},
		"internal error":     {status(500, metav1.StatusReasonInternalError, nil), Failed},
		"request entity big": {status(413, metav1.StatusReasonRequestEntityTooLarge, nil), Failed},
	} {
		for sent, aggregated := range map[string]bool{runtime.ContentTypeProtobuf: false, runtime.ContentTypeJSON: true} {
			t.Run(name+"/"+sent, func(t *testing.T) {
				a := against(t, func(w http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					if err != nil {
						t.Error(err)
					}
					o, err := fakeapi.DeleteOptions(body)
					if err != nil {
						t.Error(err)
					}
					p := o.Preconditions
					if r.Method != http.MethodDelete || r.Header.Get("Content-Type") != sent || p == nil || p.UID == nil || *p.UID != "u" ||
						p.ResourceVersion == nil || *p.ResourceVersion != "7" || o.PropagationPolicy == nil || *o.PropagationPolicy != metav1.DeletePropagationForeground {
						t.Errorf("%s %s of %s with %+v", r.Method, r.URL, r.Header.Get("Content-Type"), o)
					}
					tc.answer(w, r)
				})
				got, err := a.Delete(t.Context(), configMaps, &graph.Record{Namespace: "ns", Name: "n", UID: "u", ResourceVersion: "7"},
					Deletion{Policy: metav1.DeletePropagationForeground, Aggregated: aggregated})
				if got != tc.want || (err != nil) != (tc.want == Failed) {
					t.Errorf("outcome %v, %v; want %v", got, err, tc.want)
				}
			})
		}
	}
}

// Both encodings go to the same place: the path is made here for one and by the metadata client for the other.
func TestDeleteFindsTheObject(t *testing.T) {
	for want, tc := range map[string]struct {
		of        schema.GroupVersionResource
		namespace string
	}{
		"/api/v1/namespaces/ns/configmaps/n":           {configMaps, "ns"},
		"/api/v1/nodes/n":                              {schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, ""},
		"/apis/example.com/v2/namespaces/ns/widgets/n": {schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "widgets"}, "ns"},
		"/apis/example.com/v1/widgets/n":               {schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, ""},
	} {
		for _, aggregated := range []bool{false, true} {
			asked := ""
			a := against(t, func(w http.ResponseWriter, r *http.Request) {
				asked = r.URL.RequestURI()
				status(200, "", nil)(w, r)
			})
			got, err := a.Delete(t.Context(), tc.of, &graph.Record{Namespace: tc.namespace, Name: "n", UID: "u", ResourceVersion: "7"},
				Deletion{Policy: metav1.DeletePropagationBackground, Aggregated: aggregated})
			if asked != want || got != Done || err != nil {
				t.Errorf("aggregated %v: %s was asked for, %v, %v; want %s", aggregated, asked, got, err, want)
			}
		}
	}
}
