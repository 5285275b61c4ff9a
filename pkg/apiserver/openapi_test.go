package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/kube-openapi/pkg/handler3"

	"github.com/reap-dev/reap/pkg/datastore"
	"github.com/reap-dev/reap/pkg/pki"
)

// assembled returns the documents of an API server that has been put together and does
// not run, and what kube-apiserver itself would serve.
func assembled(t *testing.T) (ours *openAPI, theirs http.Handler) {
	t.Helper()
	dir := t.TempDir()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	store, err := datastore.Start(t.Context(), datastore.Options{
		Dir: dir, Synchronous: "normal", Metrics: prometheus.NewRegistry(), StartTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Stop)
	files, err := pki.Ensure(dir, pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel) // before the store stops
	chain, ours, err := new(Server).build(ctx, Options{
		Listener: listener, PKI: files, EtcdEndpoints: store.Endpoints, StoreCompacts: true,
		ServiceClusterIPRange: "10.43.0.0/16", Args: []string{"v=0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(chain.GenericAPIServer.Destroy)
	container := chain.GenericAPIServer.NextDelegate().(*genericapiserver.GenericAPIServer).Handler.GoRestfulContainer
	m := mux.NewPathRecorderMux("kube-apiserver")
	upstream := routes.OpenAPI{Config: ours.v2, V3Config: ours.v3}
	upstream.InstallV2(container, m)
	upstream.InstallV3(container, m)
	ours.started()
	return ours, m
}

func get(h http.Handler, url string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, url, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func index(t *testing.T, h http.Handler) handler3.OpenAPIV3Discovery {
	t.Helper()
	var d handler3.OpenAPIV3Discovery
	if w := get(h, openAPIv3); w.Code != http.StatusOK {
		t.Fatalf("%s: %d", openAPIv3, w.Code)
	} else if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

const (
	asJSON    = "application/json"
	protobuf2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	protobuf3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
)

// TestOpenAPI holds what is served against what kube-apiserver would serve. There can be
// one API server in a process, hence one test.
func TestOpenAPI(t *testing.T) {
	o, theirs := assembled(t)
	ours := http.NewServeMux()
	ours.HandleFunc(openAPIv2, o.serveV2)
	ours.HandleFunc(openAPIv3, o.serveIndex)
	ours.HandleFunc(openAPIv3+"/", o.serveV3)

	same := func(t *testing.T, url, accept string) {
		t.Helper()
		got, want := get(ours, url, "Accept", accept), get(theirs, url, "Accept", accept)
		if got.Code != want.Code || !bytes.Equal(got.Body.Bytes(), want.Body.Bytes()) {
			t.Errorf("%s as %s: %d, %d bytes; kube-apiserver: %d, %d bytes", url, accept, got.Code, got.Body.Len(), want.Code, want.Body.Len())
		}
		for _, h := range []string{"Content-Type", "Etag", "Vary"} {
			if g, w := got.Header().Get(h), want.Header().Get(h); g != w {
				t.Errorf("%s as %s: %s is %q, kube-apiserver's is %q", url, accept, h, g, w)
			}
		}
	}
	got, want := index(t, ours), index(t, theirs)
	if len(want.Paths) < 20 {
		t.Errorf("kube-apiserver has %d documents", len(want.Paths))
	}
	for p := range want.Paths {
		if _, ok := got.Paths[p]; !ok {
			t.Errorf("no document for %s", p)
		}
	}
	for p, item := range got.Paths {
		if _, ok := want.Paths[p]; !ok {
			t.Errorf("a document for %s, which kube-apiserver has not", p)
		}
		t.Run("v3/"+p, func(t *testing.T) {
			same(t, openAPIv3+"/"+p, asJSON)
			if w := get(ours, item.ServerRelativeURL); w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
				t.Errorf("%s: %d, Cache-Control %q", item.ServerRelativeURL, w.Code, w.Header().Get("Cache-Control"))
			}
			w := get(ours, openAPIv3+"/"+p+"?hash=another")
			if w.Code != http.StatusMovedPermanently || w.Header().Get("Location") != item.ServerRelativeURL {
				t.Errorf("with a hash of the past: %d to %q, want %q", w.Code, w.Header().Get("Location"), item.ServerRelativeURL)
			}
		})
	}
	t.Run("v3 as protobuf", func(t *testing.T) { same(t, openAPIv3+"/apis/apps/v1", protobuf3) })
	t.Run("v2", func(t *testing.T) { same(t, openAPIv2, asJSON) })
	t.Run("v2 as protobuf", func(t *testing.T) { same(t, openAPIv2, protobuf2) })
	t.Run("not acceptable", func(t *testing.T) { same(t, openAPIv2, "text/html") })
	t.Run("unknown group", func(t *testing.T) {
		if w := get(ours, openAPIv3+"/apis/nothing/v1"); w.Code != http.StatusNotFound {
			t.Errorf("%d", w.Code)
		}
	})
	t.Run("v2 has not changed", func(t *testing.T) {
		etag := get(ours, openAPIv2).Header().Get("Etag")
		if w := get(ours, openAPIv2, "If-None-Match", etag); w.Code != http.StatusNotModified || w.Body.Len() != 0 {
			t.Errorf("%d, %d bytes", w.Code, w.Body.Len())
		}
	})
	t.Run("nothing is kept", func(t *testing.T) {
		for range 2 { // the first frees weak references, the second what only those kept
			runtime.GC()
		}
		for what, m := range o.built {
			if m.Value() != nil {
				t.Errorf("%s is still in memory", what)
			}
		}
	})
	t.Run("hash", func(t *testing.T) {
		again := newOpenAPI(o.services, o.v2, o.v3, []string{"v=0"})
		if again.hash != o.hash {
			t.Errorf("the same server has another hash")
		}
		if other := newOpenAPI(o.services, o.v2, o.v3, []string{"runtime-config=api/all=true"}); other.hash == o.hash {
			t.Errorf("a server with other arguments has the same hash")
		}
		if other := newOpenAPI(o.services[1:], o.v2, o.v3, []string{"v=0"}); other.hash == o.hash {
			t.Errorf("a server with other routes has the same hash")
		}
	})
}
