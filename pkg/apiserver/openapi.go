package apiserver

import (
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/emicklei/go-restful/v3"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/klog/v2"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
)

const (
	openAPIv2 = "/openapi/v2"
	openAPIv3 = "/openapi/v3"
)

// openAPI serves the OpenAPI documents of Kubernetes' own types, and builds each on
// request. kube-apiserver builds all of them before it is ready and keeps them, which
// takes a third of an idle server's memory although few clients read them.
// kube-apiserver still serves the documents of custom resources.
//
// openAPI replaces the handlers that [routes.OpenAPI] installs, and answers with the
// same bytes. Only the hashes in the index of version 3 differ: kube-apiserver hashes
// the documents, openAPI hashes their inputs.
type openAPI struct {
	v2       *common.Config
	v3       *common.OpenAPIV3Config
	services []*restful.WebService
	byPath   map[string]*restful.WebService // by group version, as in apis/apps/v1
	hash     string                         // of the documents' inputs
	index    []byte                         // of the documents of version 3

	etagV2 atomic.Pointer[string] // once the document of version 2 has been built

	building sync.Mutex // one at a time: each takes many megabytes while it lasts
	// Built documents are kept until Go's next garbage collection, since clients often
	// request a document several times.
	built map[string]weak.Pointer[mux.PathRecorderMux]
}

// prepareOpenAPI leaves the documents to installOpenAPI. It also replaces the function
// that names operations: the builders' own function keeps all their data in memory.
func prepareOpenAPI(c *genericapiserver.Config) {
	c.SkipOpenAPIInstallation = true
	name := func(r common.Route) (string, []string, error) {
		route, ok := r.(*restfuladapter.RouteAdapter)
		if !ok {
			return "", nil, fmt.Errorf("the route %s is of another kind, %T", r.Path(), r)
		}
		return openapi.GetOperationIDAndTags(route.Route)
	}
	c.OpenAPIConfig.GetOperationIDAndTagsFromRoute = name
	c.OpenAPIV3Config.GetOperationIDAndTagsFromRoute = name
}

// installOpenAPI serves the documents; c has been prepared, and args are the arguments
// that the user gave.
func installOpenAPI(chain *aggregatorapiserver.APIAggregator, c *genericapiserver.Config, args []string) (*openAPI, error) {
	server, ok := chain.GenericAPIServer.NextDelegate().(*genericapiserver.GenericAPIServer)
	if !ok {
		return nil, errors.New("kube-apiserver is not where its aggregator should have it")
	}
	o := newOpenAPI(server.Handler.GoRestfulContainer.RegisteredWebServices(), c.OpenAPIConfig, c.OpenAPIV3Config, args)
	m := server.Handler.NonGoRestfulMux
	m.HandleFunc(openAPIv2, o.serveV2)
	m.HandleFunc(openAPIv3, o.serveIndex)
	m.HandlePrefix(openAPIv3+"/", http.HandlerFunc(o.serveV3))
	return o, nil
}

// started drops the definitions of all types, which kube-apiserver keeps for further
// documents. They are generated again for each requested document.
func (o *openAPI) started() { o.v3.Definitions = nil }

func newOpenAPI(services []*restful.WebService, v2 *common.Config, v3 *common.OpenAPIV3Config, args []string) *openAPI {
	o := &openAPI{v2: v2, v3: v3, services: services, byPath: map[string]*restful.WebService{}, built: map[string]weak.Pointer[mux.PathRecorderMux]{}}
	// The modules determine the types, the arguments which of them are served.
	made := []string{v2.Info.Version, fmt.Sprintf("%q", args)}
	if info, ok := debug.ReadBuildInfo(); ok {
		made = append(made, info.String())
	}
	for _, s := range services {
		o.byPath[strings.TrimPrefix(s.RootPath(), "/")] = s
		for _, r := range s.Routes() {
			made = append(made, r.Method+" "+r.Path)
		}
	}
	slices.Sort(made) // groups are installed in random order
	o.hash = fmt.Sprintf("%X", sha512.Sum512_256([]byte(strings.Join(made, "\n"))))
	index := handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	for p := range o.byPath {
		index.Paths[p] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: o.urlOf(p)}
	}
	o.index, _ = json.Marshal(index) // of strings: it cannot fail
	return o
}

func (o *openAPI) urlOf(groupVersion string) string {
	return (&url.URL{Path: path.Join(openAPIv3, groupVersion), RawQuery: url.Values{"hash": {o.hash}}.Encode()}).String()
}

func (o *openAPI) serveIndex(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Etag", `"`+o.hash+`"`)
	_, _ = w.Write(o.index) // a caller that has gone needs no answer
}

// serveV3 answers as handler3.OpenAPIService does. A query with the right hash lets the
// client cache the document for ever.
func (o *openAPI) serveV3(w http.ResponseWriter, r *http.Request) {
	groupVersion := strings.TrimPrefix(r.URL.Path, openAPIv3+"/")
	service, ok := o.byPath[groupVersion]
	if !ok {
		http.NotFound(w, r)
		return
	}
	hash := r.URL.Query().Get("hash")
	if hash != "" && hash != o.hash {
		http.Redirect(w, r, o.urlOf(groupVersion), http.StatusMovedPermanently)
		return
	}
	if hash != "" {
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).Format(time.RFC1123))
	}
	m, err := o.build(openAPIv3+"/"+groupVersion, func(m *mux.PathRecorderMux) error {
		one := restful.NewContainer()
		one.Add(service)
		routes.OpenAPI{V3Config: o.v3}.InstallV3(one, m)
		return nil
	})
	o.answer(w, withoutQuery(r), m, err)
}

// serveV2 answers the aggregator, which keeps the document and asks whether it has
// changed.
func (o *openAPI) serveV2(w http.ResponseWriter, r *http.Request) {
	if known := o.etagV2.Load(); known != nil && r.Header.Get("If-None-Match") == *known {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	m, err := o.build(openAPIv2, func(m *mux.PathRecorderMux) error {
		spec, err := builder.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices(o.services), o.v2)
		if err != nil {
			return err
		}
		spec.Definitions = handler.PruneDefaults(spec.Definitions)
		handler.NewOpenAPIService(spec).RegisterOpenAPIVersionedService(openAPIv2, m)
		return nil
	})
	o.answer(w, r, m, err)
	if etag := w.Header().Get("Etag"); etag != "" {
		o.etagV2.Store(&etag)
	}
}

// build returns the handler of a document. It calls install unless the handler from an
// earlier call is still in memory.
func (o *openAPI) build(what string, install func(*mux.PathRecorderMux) error) (*mux.PathRecorderMux, error) {
	o.building.Lock()
	defer o.building.Unlock()
	if m := o.built[what].Value(); m != nil {
		return m, nil
	}
	m := mux.NewPathRecorderMux("openapi")
	if err := install(m); err != nil {
		return nil, err
	}
	o.built[what] = weak.Make(m)
	return m, nil
}

func (o *openAPI) answer(w http.ResponseWriter, r *http.Request, m *mux.PathRecorderMux, err error) {
	if err != nil {
		klog.ErrorS(err, "building an OpenAPI document", "path", r.URL.Path)
		http.Error(w, "the OpenAPI document could not be built; the log says why", http.StatusInternalServerError)
		return
	}
	m.ServeHTTP(w, r)
}

func withoutQuery(r *http.Request) *http.Request {
	u := *r.URL
	u.RawQuery = ""
	without := *r
	without.URL = &u
	return &without
}
