package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/report"
)

// configMapCluster is a server with ConfigMaps in the namespace ns, and a collector that deletes in the background.
type configMapCluster struct {
	// refuse is asked before each DELETE; nil accepts all.
	refuse func(name string) *apierrors.StatusError
	// late has the collector wait until somebody asks for the version, as a follower does every pingEvery.
	late bool
	mu   sync.Mutex
	// owners are the objects that there are, by name, with the names of their owners. A UID is the name.
	owners  map[string][]string
	changed chan struct{} // closed when an object goes
	ended   []string      // in order
}

func newConfigMapCluster(t *testing.T, owners map[string][]string) (c *configMapCluster, kubeconfig string) {
	t.Helper()
	c = &configMapCluster{owners: owners, changed: make(chan struct{})}
	mux := http.NewServeMux()
	say := func(path string, body any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, http.StatusOK, body) })
	}
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		if c.late {
			c.collect()
		}
		answerJSON(w, http.StatusOK, map[string]string{"gitVersion": "v1.30.0"})
	})
	say("/api", metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	say("/apis", metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}})
	say("/api/v1", metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1",
		APIResources: []metav1.APIResource{{Name: "configmaps", SingularName: "configmap", Namespaced: true, Kind: "ConfigMap", Verbs: metav1.Verbs{"get", "list", "watch", "delete"}}},
	})
	mux.HandleFunc("GET /api/v1/configmaps", c.list)
	mux.HandleFunc("GET /api/v1/namespaces/ns/configmaps", c.list)
	mux.HandleFunc("GET /api/v1/namespaces/ns/configmaps/{name}", func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, there := c.owners[r.PathValue("name")]; !there {
			answerStatus(w, notFound(r.PathValue("name")))
			return
		}
		answerJSON(w, http.StatusOK, c.object(r.PathValue("name")))
	})
	mux.HandleFunc("DELETE /api/v1/namespaces/ns/configmaps/{name}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		if c.refuse != nil {
			if err := c.refuse(name); err != nil {
				answerStatus(w, err)
				return
			}
		}
		c.end(name)
		answerJSON(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
		if !c.late {
			go c.collect()
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	writeFile(t, kubeconfig, "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n- {name: a, cluster: {server: '"+
		server.URL+"'}}\ncontexts:\n- {name: a, context: {cluster: a}}\n")
	return c, kubeconfig
}

func answerJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func answerStatus(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	answerJSON(w, int(status.Code), status)
}

func notFound(name string) *apierrors.StatusError {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
}

// object is called with the lock held.
func (c *configMapCluster) object(name string) metav1.PartialObjectMetadata {
	o := metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: "1"},
	}
	for _, owner := range c.owners[name] {
		o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner, UID: types.UID(owner)})
	}
	return o
}

// list lists all objects, or shows their ends.
func (c *configMapCluster) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Get("sendInitialEvents") != "" {
		answerStatus(w, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)) // as of a server that cannot do that
		return
	}
	if query.Get("watch") == "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
		for name := range c.owners {
			list.Items = append(list.Items, c.object(name))
		}
		answerJSON(w, http.StatusOK, list)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	for shown := 0; ; {
		_ = http.NewResponseController(w).Flush()
		c.mu.Lock()
		ended, changed := c.ended[shown:], c.changed
		shown = len(c.ended)
		c.mu.Unlock()
		for _, name := range ended {
			c.mu.Lock()
			gone := c.object(name)
			c.mu.Unlock()
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "DELETED", "object": gone})
		}
		if len(ended) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func (c *configMapCluster) end(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.owners[name]; !there {
		return
	}
	delete(c.owners, name)
	c.ended = append(c.ended, name)
	close(c.changed)
	c.changed = make(chan struct{})
}

// collect deletes what no owner keeps.
func (c *configMapCluster) collect() {
	for {
		c.mu.Lock()
		dangling := slices.Collect(maps.Keys(c.owners))
		dangling = slices.DeleteFunc(dangling, func(name string) bool {
			return len(c.owners[name]) == 0 || slices.ContainsFunc(c.owners[name], func(owner string) bool { _, there := c.owners[owner]; return there })
		})
		c.mu.Unlock()
		if len(dangling) == 0 {
			return
		}
		for _, name := range dangling {
			c.end(name)
		}
	}
}

// until waits for the end of an object.
func (c *configMapCluster) until(name string) {
	for {
		c.mu.Lock()
		_, there := c.owners[name]
		changed := c.changed
		c.mu.Unlock()
		if !there {
			return
		}
		<-changed
	}
}

// deletes runs reap delete, which is interrupted if it takes too long.
func deletes(t *testing.T, kubeconfig string, args ...string) (d report.Deleted, got result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var stdout, stderr bytes.Buffer
	args = append([]string{"reap", "delete", "-n", "ns", "--yes", "-o", "json", "--kubeconfig", kubeconfig, "--config="}, args...)
	code := run(ctx, args, &stdout, &stderr, nil)
	if ctx.Err() != nil {
		t.Errorf("it does not end by itself")
	}
	if err := json.Unmarshal(stdout.Bytes(), &d); err != nil {
		t.Fatalf("%v: %q, %s", err, stdout.String(), stderr.String())
	}
	return d, result{code, stdout.String(), stderr.String()}
}

// TestDeleteEndsAlthoughARefusedObjectHasDependents, which stay with it. It follows everything else to the end.
func TestDeleteEndsAlthoughARefusedObjectHasDependents(t *testing.T) {
	cluster, kubeconfig := newConfigMapCluster(t, map[string][]string{
		"a": nil, "a-set": {"a"}, "a-pod": {"a-set"},
		"b": nil, "b-set": {"b"}, "b-pod": {"b-set"},
		"shared": {"a", "b"},
	})
	cluster.late = true // or what ends too early might not be seen
	cluster.refuse = func(name string) *apierrors.StatusError {
		if name != "a" {
			return nil
		}
		return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, name, errors.New("no"))
	}
	d, got := deletes(t, kubeconfig, "configmaps/a", "configmaps/b")
	if got.code != exitRun || len(d.Requested) != 1 || d.Requested[0].Name != "b" || len(d.Failed) != 1 || d.Failed[0].Object.Name != "a" || d.Gone != 3 || d.Left != 4 {
		t.Errorf("%+v, %+v", d, got)
	}
	if n := strings.Count(got.stderr, "forbidden"); n != 1 || !strings.HasSuffix(got.stderr, "reap: deleting failed for 1 of 2 objects\n") {
		t.Errorf("it says %d times that a may not be deleted:\n%s", n, got.stderr)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestDeleteSaysWhatWasRefusedBeforeItWaits for what was not.
func TestDeleteSaysWhatWasRefusedBeforeItWaits(t *testing.T) {
	cluster, kubeconfig := newConfigMapCluster(t, map[string][]string{"a": nil, "b": nil})
	said := make(chan struct{})
	cluster.refuse = func(name string) *apierrors.StatusError {
		if name == "a" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, name, errors.New("no"))
		}
		<-said // the answer to the other DELETE comes later
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var stdout bytes.Buffer
	seen := sync.OnceFunc(func() { close(said) })
	defer seen()
	stderr := writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("forbidden")) {
			seen()
		}
		return len(p), nil
	})
	code := run(ctx, []string{"reap", "delete", "-n", "ns", "--yes", "--kubeconfig", kubeconfig, "--config=", "configmaps/a", "configmaps/b"}, &stdout, stderr, nil)
	if code != exitRun || ctx.Err() != nil || !strings.HasPrefix(stdout.String(), "1 object gone in ") {
		t.Errorf("exit code %d, %v, %s", code, ctx.Err(), stdout.String())
	}
}

// TestDeleteToleratesObjectsThatTheCascadeTookFirst: what had gone before its own DELETE came counts as deleted.
func TestDeleteToleratesObjectsThatTheCascadeTookFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		answer *apierrors.StatusError
		fails  bool
	}{
		"gone":             {answer: notFound("b-set")},
		"made again":       {answer: apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "b-set", errors.New("another UID")), fails: true},
		"another's answer": {answer: apierrors.NewNotFound(schema.GroupResource{Resource: "pages"}, "b-set"), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, kubeconfig := newConfigMapCluster(t, map[string][]string{"b": nil, "b-set": {"b"}, "b-pod": {"b-set"}})
			cluster.refuse = func(name string) *apierrors.StatusError {
				if name == "b" {
					return nil
				}
				cluster.until(name)
				return tc.answer
			}
			d, got := deletes(t, kubeconfig, "configmaps/b", "configmaps/b-set")
			if tc.fails {
				if got.code != exitRun || len(d.Requested) != 1 || len(d.Failed) != 1 || d.Failed[0].Object.Name != "b-set" || d.Gone != 3 {
					t.Errorf("%+v, %+v", d, got)
				}
				return
			}
			if got.code != exitOK || len(d.Requested) != 2 || len(d.Failed) != 0 || d.Gone != 3 || d.Left != 0 || strings.Contains(got.stdout, "failed") {
				t.Errorf("%+v, %+v", d, got)
			}
		})
	}
}
