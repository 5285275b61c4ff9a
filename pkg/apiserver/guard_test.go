package apiserver

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// TestStoreThatTakesNoWrites: deletions pass, and the collector's patches, but no other write, and none that only says
// that it is the collector's.
func TestStoreThatTakesNoWrites(t *testing.T) {
	full := true
	code := http.StatusServiceUnavailable // see TestGuardMarksUpdatesOnAFullDisk for a full disk
	h := guarded(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), Store{
		Refusal: func() (int, string) {
			if !full {
				return 0, ""
			}
			return code, "it takes no writes"
		},
		Explain: func(string) (int, string) { return 0, "" },
	})
	self := &user.DefaultInfo{Name: collector}
	for name, tc := range map[string]struct {
		info   request.RequestInfo
		caller user.Info // in process
		says   string    // that it is somebody, over the network
		passes bool
	}{
		"read":               {info: request.RequestInfo{Verb: "get"}, passes: true},
		"list":               {info: request.RequestInfo{Verb: "list"}, passes: true},
		"watch":              {info: request.RequestInfo{Verb: "watch"}, passes: true},
		"deletion":           {info: request.RequestInfo{Verb: "delete"}, passes: true},
		"deletions":          {info: request.RequestInfo{Verb: "deletecollection"}, passes: true},
		"creation":           {info: request.RequestInfo{Verb: "create"}},
		"update":             {info: request.RequestInfo{Verb: "update"}},
		"patch":              {info: request.RequestInfo{Verb: "patch"}},
		"eviction":           {info: request.RequestInfo{Verb: "create", Subresource: "eviction"}, passes: true},
		"collector's patch":  {info: request.RequestInfo{Verb: "patch"}, caller: self, passes: true},
		"patch as collector": {info: request.RequestInfo{Verb: "patch"}, says: collector},
		"collector's event":  {info: request.RequestInfo{Verb: "create"}, caller: self},
		"controller's patch": {info: request.RequestInfo{Verb: "patch"}, caller: &user.DefaultInfo{Name: "another"}},
		"access review":      {info: request.RequestInfo{Verb: "create", APIGroup: "authorization.k8s.io"}, passes: true},
		"token review":       {info: request.RequestInfo{Verb: "create", APIGroup: "authentication.k8s.io"}, passes: true},
		"token":              {info: request.RequestInfo{Verb: "create", Subresource: "token"}, passes: true},
	} {
		for _, full = range []bool{true, false} {
			tc.info.IsResourceRequest = true
			ctx := request.WithRequestInfo(t.Context(), &tc.info)
			if tc.caller != nil {
				ctx = context.WithValue(ctx, callerKey{}, tc.caller)
			}
			ctx = request.WithUser(ctx, &user.DefaultInfo{Name: tc.says})
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil).WithContext(ctx))
			want := http.StatusNoContent
			if full && !tc.passes {
				want = code
			}
			if w.Code != want {
				t.Errorf("%s, while no writes are taken %t: %d, want %d", name, full, w.Code, want)
			}
		}
	}
}

// TestErrorsOfTheStoreAreExplained: the internal error that kube-apiserver takes them for becomes what they are; other
// answers stay as they are.
func TestErrorsOfTheStoreAreExplained(t *testing.T) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	store := Store{
		Refusal: func() (int, string) { return 0, "" },
		Explain: func(message string) (int, string) {
			if _, text, found := strings.Cut(message, "MARK "); found {
				return http.StatusInsufficientStorage, text
			}
			return 0, ""
		},
	}
	status := &metav1.Status{Message: `rpc error: MARK "x" is full`, Reason: metav1.StatusReasonInternalError, Code: 500}
	raw, err := runtime.Encode(protobuf.NewSerializer(scheme, scheme), status)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		code int
		body string
		want int
		says string
	}{
		"of the store":     {500, `{"kind":"Status","message":"rpc error: MARK \"x\" is full"}`, 507, `"x" is full`},
		"in protobuf":      {500, string(raw), 507, `"x" is full`},
		"another":          {500, `{"kind":"Status","message":"boom"}`, 500, ""},
		"no Status":        {500, "boom", 500, ""},
		"not internal":     {409, `{"kind":"Status","message":"MARK x"}`, 409, ""},
		"an object's text": {200, `{"kind":"ConfigMap","data":{"a":"MARK x"}}`, 200, ""},
	} {
		h := guarded(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(tc.code)
			_, _ = w.Write([]byte(tc.body)) // to a recorder
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
		}), store)
		w := httptest.NewRecorder()
		ctx := request.WithRequestInfo(t.Context(), &request.RequestInfo{IsResourceRequest: true, Verb: "get"})
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
		if w.Code != tc.want {
			t.Errorf("%s: %d, want %d", name, w.Code, tc.want)
		}
		if tc.says == "" {
			if w.Body.String() != tc.body {
				t.Errorf("%s: the body is %s", name, w.Body)
			}
			continue
		}
		var status metav1.Status
		if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || status.Message != tc.says || int(status.Code) != tc.want {
			t.Errorf("%s: the body is %s (%v)", name, w.Body, err)
		}
	}
}
