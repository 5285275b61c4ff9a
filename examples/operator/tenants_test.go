package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// A contract owns a tenant, who lives in an aggregated API and owns a site: all of it goes with the contract.
func TestAggregatedAPIInTheMiddle(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.serveTenants(t)
	contract := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "contract"}}
	if err := w.Create(t.Context(), contract); err != nil {
		t.Fatal(err)
	}
	tenant := &unstructured.Unstructured{}
	tenant.SetGroupVersionKind(tenantKind)
	tenant.SetNamespace("default")
	tenant.SetName("jones")
	tenant.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: contract.Name, UID: contract.UID}})
	await(t, "the API of tenants", func() error { return w.Create(t.Context(), tenant) })
	site, owned := w.site(t, "shop", metav1.OwnerReference{
		APIVersion: tenantKind.GroupVersion().String(), Kind: tenantKind.Kind, Name: tenant.GetName(), UID: tenant.GetUID(),
	})
	if err := w.Delete(t.Context(), contract); err != nil {
		t.Fatal(err)
	}
	w.Gone(t, contract, tenant, site)
	for _, o := range owned {
		w.Gone(t, o)
	}
}

var tenantKind = schema.GroupVersionKind{Group: "tenants.example.net", Version: "v1", Kind: "Tenant"}

// serveTenants runs an API server in the test's process and registers it. A Service with an external name leads to it.
func (w *world) serveTenants(t *testing.T) {
	t.Helper()
	api := httptest.NewTLSServer(&tenants{changed: make(chan struct{})})
	t.Cleanup(func() {
		api.CloseClientConnections() // watches would not end
		api.Close()
	})
	u, err := url.Parse(api.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tenants"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: host},
	}
	if err := w.Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	registration := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": "v1." + tenantKind.Group},
		"spec": map[string]any{
			"group": tenantKind.Group, "version": "v1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(15),
			"insecureSkipTLSVerify": true,
			"service":               map[string]any{"namespace": "default", "name": "tenants", "port": number},
		},
	}}
	if err := w.Create(t.Context(), registration); err != nil {
		t.Fatal(err)
	}
}

// tenants is an aggregated API of one resource, whose objects are nothing but metadata: as much as a client of metadata
// and the garbage collector need. A real one is built with k8s.io/apiserver.
type tenants struct {
	mu      sync.Mutex // protects what follows
	history []event    // its length is the resourceVersion
	changed chan struct{}
}

type event struct {
	kind   watch.EventType
	object metav1.PartialObjectMetadata
}

func (s *tenants) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	all := "/apis/" + tenantKind.GroupVersion().String()
	path, below := strings.CutPrefix(r.URL.Path, all)
	// "", "/tenants", "/namespaces/NAMESPACE/tenants" or "/namespaces/NAMESPACE/tenants/NAME"
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	switch {
	case !below:
		http.NotFound(w, r)
	case path == "":
		answer(w, http.StatusOK, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: tenantKind.GroupVersion().String(),
			APIResources: []metav1.APIResource{{
				Name: "tenants", SingularName: "tenant", Kind: tenantKind.Kind, Namespaced: true,
				Verbs: metav1.Verbs{"create", "delete", "get", "list", "watch"},
			}},
		})
	case parts[0] == "tenants" && r.URL.Query().Get("sendInitialEvents") == "true":
		refuse(w, apierrors.NewInvalid(tenantKind.GroupKind(), "", nil)) // clients then list
	case parts[0] == "tenants" && r.URL.Query().Get("watch") != "":
		s.watch(w, r)
	case r.Method == http.MethodGet && len(parts) < 4:
		s.list(w)
	case r.Method == http.MethodPost:
		s.create(w, r)
	default:
		s.one(w, r, parts[len(parts)-1])
	}
}

// live is the objects that exist.
func (s *tenants) live() []metav1.PartialObjectMetadata {
	var live []metav1.PartialObjectMetadata
	for _, e := range s.history {
		if e.kind == watch.Added {
			live = append(live, e.object)
		} else {
			live = slices.DeleteFunc(live, func(o metav1.PartialObjectMetadata) bool { return o.UID == e.object.UID })
		}
	}
	return live
}

// add makes an event of the object.
func (s *tenants) add(kind watch.EventType, o metav1.PartialObjectMetadata) metav1.PartialObjectMetadata {
	o.ResourceVersion = strconv.Itoa(len(s.history) + 1)
	s.history = append(s.history, event{kind, o})
	close(s.changed)
	s.changed = make(chan struct{})
	return o
}

func (s *tenants) list(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer(w, http.StatusOK, metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(len(s.history))},
		Items:    s.live(),
	})
}

func (s *tenants) create(w http.ResponseWriter, r *http.Request) {
	var o metav1.PartialObjectMetadata
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o.UID = types.UID(fmt.Sprintf("tenant-%d", len(s.history)+1))
	o.CreationTimestamp = metav1.Now()
	answer(w, http.StatusCreated, s.add(watch.Added, o))
}

// one reads or deletes an object.
func (s *tenants) one(w http.ResponseWriter, r *http.Request, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	live := s.live()
	i := slices.IndexFunc(live, func(o metav1.PartialObjectMetadata) bool { return o.Name == name })
	switch {
	case i < 0:
		refuse(w, apierrors.NewNotFound(schema.GroupResource{Group: tenantKind.Group, Resource: "tenants"}, name))
	case r.Method == http.MethodDelete:
		answer(w, http.StatusOK, s.add(watch.Deleted, live[i]))
	default:
		o := live[i]
		if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
			o.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
		}
		answer(w, http.StatusOK, o)
	}
}

func (s *tenants) watch(w http.ResponseWriter, r *http.Request) {
	seen, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		refuse(w, apierrors.NewBadRequest("a watch needs a resourceVersion"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	for {
		_ = http.NewResponseController(w).Flush() // the client has gone, if anything
		s.mu.Lock()
		news, changed := s.history[seen:], s.changed
		s.mu.Unlock()
		for _, e := range news {
			e.object.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
			_ = json.NewEncoder(w).Encode(map[string]any{"type": e.kind, "object": e.object}) // likewise
		}
		if seen += len(news); len(news) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client has gone, if anything
}

func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	answer(w, int(status.Code), status)
}
