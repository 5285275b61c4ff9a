package gc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/gc/decide"
	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/pause"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// configMaps is the only resource of the store below.
var configMaps = schema.GroupResource{Resource: "configmaps"}

// store answers requests for ConfigMaps of the namespace ns as an API server would: it
// checks preconditions, and every write sets a new resourceVersion. It records the
// calls.
type store struct {
	t *testing.T
	// deletions is what the body of a deletion has to be.
	deletions string

	mu      sync.Mutex
	objects map[string]*metav1.ObjectMeta
	status  map[string]any // by name
	calls   []string
	// before runs ahead of each call, under the lock, and may change the objects.
	before func(call string)
	// answer may answer in the store's place; it returns true if it did.
	answer   func(w http.ResponseWriter, call string) bool
	revision int
}

func (s *store) put(name string, uid types.UID, owners ...metav1.OwnerReference) *metav1.ObjectMeta {
	s.revision++
	m := &metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid, ResourceVersion: strconv.Itoa(s.revision), OwnerReferences: owners}
	s.objects[name] = m
	return m
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := path.Base(r.URL.Path)
	call := r.Method + " " + name
	s.calls = append(s.calls, call)
	if s.before != nil {
		s.before(call)
	}
	if s.answer != nil && s.answer(w, call) {
		return
	}
	if name == "configmaps" {
		s.list(w)
		return
	}
	m := s.objects[name]
	if m == nil {
		s.fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, name)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	switch r.Method {
	case http.MethodDelete:
		o, err := fakeapi.DeleteOptions(body)
		if err != nil {
			s.t.Error(err)
		}
		if got := r.Header.Get("Content-Type"); got != s.deletions {
			s.t.Errorf("%s with %s, want %s", call, got, s.deletions)
		}
		if p := o.Preconditions; p == nil || p.UID == nil || p.ResourceVersion == nil {
			s.t.Errorf("%s without preconditions", call)
		} else if *p.UID != m.UID || *p.ResourceVersion != m.ResourceVersion {
			s.fail(w, http.StatusConflict, metav1.StatusReasonConflict, name)
			return
		}
		delete(s.objects, name)
	case http.MethodPatch:
		var p struct{ Metadata metav1.ObjectMeta }
		if err := json.Unmarshal(body, &p); err != nil {
			s.t.Error(err)
		}
		if p.Metadata.UID != m.UID || p.Metadata.ResourceVersion != m.ResourceVersion {
			s.fail(w, http.StatusConflict, metav1.StatusReasonConflict, name)
			return
		}
		if p.Metadata.OwnerReferences != nil {
			m.OwnerReferences = p.Metadata.OwnerReferences
		}
		if p.Metadata.Finalizers != nil {
			m.Finalizers = p.Metadata.Finalizers
		}
		s.revision++
		m.ResourceVersion = strconv.Itoa(s.revision)
		if m.DeletionTimestamp != nil && len(m.Finalizers) == 0 {
			delete(s.objects, name)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(struct {
		metav1.PartialObjectMetadata
		Status any `json:"status,omitempty"`
	}{metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: *m,
	}, s.status[name]})
}

func (s *store) list(w http.ResponseWriter) {
	l := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
	for _, m := range s.objects {
		l.Items = append(l.Items, metav1.PartialObjectMetadata{ObjectMeta: *m})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(l)
}

// deleting puts an object that is being deleted and has finalizers.
func (s *store) deleting(name string, uid types.UID, finalizers ...string) *metav1.ObjectMeta {
	m := s.put(name, uid)
	m.Finalizers = finalizers
	m.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
	return m
}

func (s *store) fail(w http.ResponseWriter, code int, reason metav1.StatusReason, name string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reason, Details: &metav1.StatusDetails{Name: name, Kind: "configmaps"},
	})
}

// wantCalls compares the calls made since it last ran, in order.
func (s *store) wantCalls(want ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.calls, want) {
		s.t.Errorf("calls were %q, want %q", s.calls, want)
	}
	s.calls = nil
}

// has says whether the store still has the object.
func (s *store) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[name] != nil
}

// collector returns a collector over a store; its monitors do not run.
func collector(t *testing.T, aggregated bool) (*Collector, *store) {
	t.Helper()
	s := &store{t: t, objects: map[string]*metav1.ObjectMeta{}, deletions: runtime.ContentTypeProtobuf}
	if aggregated {
		s.deletions = runtime.ContentTypeJSON
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	log := logrus.New()
	log.SetOutput(io.Discard)
	c, err := New(Options{Config: &rest.Config{Host: server.URL, QPS: -1}, Log: logrus.NewEntry(log)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.deleting.queue.ShutDown)
	c.gate.set(pause.State{})
	c.graph.SetCatalog(graph.NewCatalog([]*graph.Resource{{
		Name: "configmaps", Kind: "ConfigMap", Versions: []string{"v1"}, Namespaced: true, Monitored: true, Aggregated: aggregated,
	}}), c.now())
	c.graph.AddResource(configMaps, schema.GroupKind{Kind: "ConfigMap"}, c.now())
	return c, s
}

// show lets the graph observe an object as it is and returns its key.
func show(c *Collector, m *metav1.ObjectMeta) graph.Key {
	c.graph.Upsert(configMaps, graph.RecordOf(m), c.now())
	return graph.Key{Resource: configMaps, UID: m.UID}
}

func ref(name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: uid}
}

func attemptOnce(t *testing.T, c *Collector, k graph.Key) error {
	t.Helper()
	_, err := c.attempts.run(t.Context(), k)
	if err := c.graph.Check(); err != nil {
		t.Errorf("the graph is broken: %v", err)
	}
	return err
}

func TestCollectingADependentTakesOneCall(t *testing.T) {
	c, s := collector(t, false)
	k := show(c, s.put("child", "c", ref("owner", "o")))
	c.graph.Deleted(configMaps, &graph.Record{Namespace: "ns", Name: "owner", UID: "o"}, c.now())
	if err := attemptOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("DELETE child")
	if s.has("child") {
		t.Error("the child is still there")
	}
}

// Fifty dependents are decided about at once: their owner is read once, by one of them.
func TestOwnerIsReadOnceForAllItsDependents(t *testing.T) {
	for name, show1 := range map[string]func(*Collector, *store){
		"unseen":  func(*Collector, *store) {},
		"waiting": func(c *Collector, s *store) { waiting(c, s, "owner", "o") },
	} {
		t.Run(name, func(t *testing.T) {
			c, s := collector(t, false)
			show1(c, s)
			var keys []graph.Key
			for i := range 50 {
				keys = append(keys, show(c, s.put(fmt.Sprint("child", i), types.UID(fmt.Sprint("c", i)), ref("owner", "o"))))
			}
			// While the first read is under way the others have their turns. None of
			// them holds a worker until the read ends.
			reading := false
			s.answer = func(_ http.ResponseWriter, call string) bool {
				if call != "GET owner" || reading {
					return false
				}
				reading = true
				s.mu.Unlock()
				defer s.mu.Lock()
				var others sync.WaitGroup
				for _, k := range keys[1:] {
					others.Go(func() {
						if _, err := c.attempts.run(context.Background(), k); !errors.Is(err, errPutAside) {
							t.Errorf("a dependent's turn beside the read ended with %v", err)
						}
					})
				}
				others.Wait()
				return false
			}
			if err := attemptOnce(t, c, keys[0]); err != nil {
				t.Error(err)
			}
			if n := c.deleting.queue.Len(); n != len(keys)-1 {
				t.Errorf("%d have been put aside", n)
			}
			for c.deleting.queue.Len() > 0 {
				k, _ := c.deleting.queue.Get()
				if err := attemptOnce(t, c, k); err != nil {
					t.Error(err)
				}
				c.deleting.queue.Done(k)
			}
			reads := 0
			for _, call := range s.calls {
				if call == "GET owner" {
					reads++
				}
			}
			left := slices.DeleteFunc(keys, func(k graph.Key) bool { return !s.has("child" + strings.TrimPrefix(string(k.UID), "c")) })
			if reads != 1 || len(left) != 0 {
				t.Errorf("%d reads, %d objects left", reads, len(left))
			}
		})
	}
}

// Two dependents have the same owner. The view of the second is older than the read of
// the owner for the first; the owner is not read again.
func TestOwnerThatWasReadMeanwhileIsNotReadAgain(t *testing.T) {
	c, s := collector(t, false)
	first, second := show(c, s.put("first", "1", ref("owner", "o"))), show(c, s.put("second", "2", ref("owner", "o")))
	before, _ := c.graph.View(second)
	if err := attemptOnce(t, c, first); err != nil {
		t.Fatal(err)
	}
	proved, err := c.attempts.verifier.verify(t.Context(), second, before.Owners)
	if o := before.Owners[0]; err != nil || !proved[ownerPlace{"o", o.At}].Proved() {
		t.Errorf("%v is proved; %v", proved, err)
	}
	s.wantCalls("GET owner", "DELETE first")
}

// An owner that cannot be read is retried with growing delays, however many objects
// name it: a dependent that finds a read under way has not succeeded.
func TestUnreadableOwnerOfManyIsReadEverMoreRarely(t *testing.T) {
	c, s := collector(t, false)
	k := show(c, s.put("child", "c", ref("owner", "o")))
	c.deleting.queue.retry(k, errors.New("the owner cannot be read"))
	v, _ := c.graph.View(k)
	o := v.Owners[0]
	read := ownerRead{ownerPlace{o.Reference.UID, o.At}, o.Reference.APIVersion}
	c.attempts.verifier.begin(read, graph.Key{}) // another dependent's attempt
	c.deleting.workOn(t.Context(), k)
	s.wantCalls()
	if n := c.deleting.queue.backoff.NumRequeues(k); n != 1 {
		t.Errorf("%d failures are remembered of one", n)
	}
	if aside := c.attempts.verifier.end(read); !slices.Equal(aside, []graph.Key{k}) {
		t.Errorf("the read's end is for %v", aside)
	}
}

func TestProofAboutAnOwnerServesItsOtherDependents(t *testing.T) {
	c, s := collector(t, false)
	first := show(c, s.put("first", "1", ref("owner", "o")))
	second := show(c, s.put("second", "2", ref("owner", "o")))
	for _, k := range []graph.Key{first, second} {
		if err := attemptOnce(t, c, k); err != nil {
			t.Fatal(err)
		}
	}
	s.wantCalls("GET owner", "DELETE first", "DELETE second")
}

func TestLivingOwnerWithoutAMonitorKeepsItsDependents(t *testing.T) {
	c, s := collector(t, false)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c.now = func() time.Time { return now }
	s.put("owner", "o")
	k := show(c, s.put("child", "c", ref("owner", "o")))
	again, err := c.attempts.run(t.Context(), k)
	if err != nil || !again.Equal(now.Add(decide.RecheckMonitored)) {
		t.Errorf("decide again at %v, %v", again, err)
	}
	s.wantCalls("GET owner")
	// The read is believed for a while; then the owner is read again.
	if err := attemptOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls()
	now = again
	delete(s.objects, "owner")
	if err := attemptOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("GET owner", "DELETE child")
}

func TestAnswerThatProvesNothingKeepsTheDependent(t *testing.T) {
	c, s := collector(t, false)
	k := show(c, s.put("child", "c", ref("owner", "o")))
	s.answer = func(w http.ResponseWriter, call string) bool {
		http.NotFound(w, nil)
		return true
	}
	if err := attemptOnce(t, c, k); err == nil {
		t.Error("a generic 404 is no error")
	}
	s.wantCalls("GET owner")
	if !s.has("child") {
		t.Error("the child was deleted on a generic 404")
	}
}

func TestConflictIsDecidedAgainOnTheLiveObject(t *testing.T) {
	c, s := collector(t, false)
	k := show(c, s.put("child", "c", ref("owner", "o")))
	c.graph.Deleted(configMaps, &graph.Record{Namespace: "ns", Name: "owner", UID: "o"}, c.now())
	s.put("child", "c", ref("owner", "o")) // an update that the graph has not seen
	if err := attemptOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("DELETE child", "GET child", "DELETE child")
}

// Orphaning begins when the graph receives the event of the deletion.
func TestObjectDeletedByAUserMeanwhileWaitsForItsEvent(t *testing.T) {
	c, s := collector(t, false)
	k := show(c, s.put("child", "c", ref("owner", "o")))
	c.graph.Deleted(configMaps, &graph.Record{Namespace: "ns", Name: "owner", UID: "o"}, c.now())
	s.deleting("child", "c", metav1.FinalizerOrphanDependents)
	if err := attemptOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("DELETE child", "GET child")
	if n := c.attempts.orphans.Len(); n != 0 {
		t.Errorf("%d objects wait for orphaning", n)
	}
}

func TestReferenceAddedMeanwhileKeepsTheDependent(t *testing.T) {
	c, s := collector(t, false)
	k := show(c, s.put("child", "c", ref("owner", "o")))
	c.graph.Deleted(configMaps, &graph.Record{Namespace: "ns", Name: "owner", UID: "o"}, c.now())
	s.put("saviour", "s")
	s.put("child", "c", ref("owner", "o"), ref("saviour", "s"))
	if err := attemptOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("DELETE child", "GET child", "GET saviour", "PATCH child")
	if left := s.objects["child"].OwnerReferences; len(left) != 1 || left[0].UID != "s" {
		t.Errorf("the child keeps the references %v, want the one to s", left)
	}
}

// The solid reference in the graph may have been removed since. Dropping the other one
// would leave an object that has no owners and that nobody collects.
func TestReferencesAreDroppedOnlyAfterALiveRead(t *testing.T) {
	c, s := collector(t, false)
	show(c, s.put("keeper", "k"))
	k := show(c, s.put("child", "c", ref("owner", "o"), ref("keeper", "k")))
	c.graph.Deleted(configMaps, &graph.Record{Namespace: "ns", Name: "owner", UID: "o"}, c.now())
	s.put("child", "c", ref("owner", "o"))
	if err := attemptOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("PATCH child", "GET child", "DELETE child")
}

func TestAnotherObjectUnderTheNameIsLeftAlone(t *testing.T) {
	c, s := collector(t, false)
	k := show(c, s.put("child", "c", ref("owner", "o")))
	c.graph.Deleted(configMaps, &graph.Record{Namespace: "ns", Name: "owner", UID: "o"}, c.now())
	s.put("child", "newcomer")
	if err := attemptOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("DELETE child", "GET child")
	if !s.has("child") {
		t.Error("another object was deleted")
	}
}

func TestAggregatedServersAreReadFirst(t *testing.T) {
	c, s := collector(t, true)
	k := show(c, s.put("child", "c", ref("owner", "o")))
	c.graph.Deleted(configMaps, &graph.Record{Namespace: "ns", Name: "owner", UID: "o"}, c.now())
	if err := attemptOnce(t, c, k); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("GET child", "DELETE child")
}

func TestObjectThatKeepsChangingIsBackedOffFrom(t *testing.T) {
	c, s := collector(t, false)
	k := show(c, s.put("child", "c", ref("owner", "o")))
	c.graph.Deleted(configMaps, &graph.Record{Namespace: "ns", Name: "owner", UID: "o"}, c.now())
	s.before = func(call string) {
		if call == "DELETE child" {
			s.put("child", "c", ref("owner", "o"))
		}
	}
	if err := attemptOnce(t, c, k); err == nil {
		t.Error("an attempt without end has ended well")
	}
	if !s.has("child") || len(s.calls) != 2*maxRounds {
		t.Errorf("after %d calls, want %d, the child is there: %v", len(s.calls), 2*maxRounds, s.has("child"))
	}
}
