package observe

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/fakeapi"
)

var exampleGroup = "example.com"

// If a server may ignore preconditions, its objects are read before each write.
func TestDiscoveryKnowsWhoAnswers(t *testing.T) {
	w := newWorld(t)
	w.Define(fakeapi.Resource{Group: exampleGroup, Name: "widgets", Kind: "Widget", Versions: []string{"v1"}, Namespaced: true, Aggregated: true})
	d, err := discovery.NewDiscoveryClientForConfig(w.config)
	w.must(err)
	aggregates := func() (widgets, pods bool) {
		var v versions
		found, err := v.discover(t.Context(), d, nil)
		w.must(err)
		c := found.catalog
		return c.Resource(schema.GroupResource{Group: exampleGroup, Resource: "widgets"}).Aggregated, c.Resource(schema.GroupResource{Resource: "pods"}).Aggregated
	}
	if widgets, pods := aggregates(); !widgets || pods {
		t.Errorf("widgets %v, pods %v", widgets, pods)
	}
	w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		if c.Resource == "apiservices" {
			return fakeapi.Fail(http.StatusForbidden, metav1.StatusReasonForbidden)
		}
		return nil
	})
	if widgets, pods := aggregates(); !widgets || !pods {
		t.Errorf("widgets %v, pods %v, though in doubt every resource counts as aggregated", widgets, pods)
	}
}

func TestDiscoveryReadsAPIServices(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"items": [
			{"spec": {"group": "a", "version": "v1"}},
			{"spec": {"group": "b", "version": "v1", "service": null}},
			{"spec": {"group": "c", "version": "v1", "service": {"name": "x"}}},
			{"spec": {"group": "d", "version": "v1"}},
			{"spec": {"group": "d", "version": "v2", "service": {"name": "x"}}}]}`)
	}))
	defer server.Close()
	d, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	s := readServices(t.Context(), d)
	for group, want := range map[string]bool{"a": false, "b": false, "c": true, "d": true, "": false} {
		if got := s.mayAggregate(group); got != want {
			t.Errorf("%q: another server %v", group, got)
		}
	}
}

func TestDiscoveryJoinsVersions(t *testing.T) {
	all := metav1.Verbs{"get", "list", "watch", "delete", "create"}
	of := func(name string, verbs metav1.Verbs) metav1.APIResource {
		return metav1.APIResource{Name: name, Kind: "K" + name, Namespaced: true, Verbs: verbs}
	}
	v := versions{
		order: map[string][]string{exampleGroup: {"v2", "v1"}},
		resources: map[schema.GroupVersion][]metav1.APIResource{
			{Group: exampleGroup, Version: "v1"}: {of("both", all), of("old", all), of("ignored", all)},
			{Group: exampleGroup, Version: "v2"}: {
				of("both", all), of("both/status", all), of("unread", metav1.Verbs{"list", "watch", "delete"}), of("kept", metav1.Verbs{"get", "list", "watch"}),
			},
		},
	}
	got := map[string]graph.Resource{}
	for _, r := range v.groupResources(exampleGroup, []schema.GroupResource{{Group: exampleGroup, Resource: "ignored"}}, false) {
		got[r.Name] = *r
	}
	resource := func(name string, monitored bool, versions ...string) graph.Resource {
		return graph.Resource{Group: exampleGroup, Name: name, Kind: "K" + name, Namespaced: true, Monitored: monitored, Versions: versions}
	}
	want := map[string]graph.Resource{
		"both": resource("both", true, "v2", "v1"), "old": resource("old", true, "v1"),
		"ignored": resource("ignored", false, "v1"), "kept": resource("kept", false, "v2"),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDiscoveryPutsThePreferredVersionFirst(t *testing.T) {
	gv := func(v string) metav1.GroupVersionForDiscovery {
		return metav1.GroupVersionForDiscovery{GroupVersion: exampleGroup + "/" + v, Version: v}
	}
	g := &metav1.APIGroup{Name: exampleGroup, Versions: []metav1.GroupVersionForDiscovery{gv("v1"), gv("v2")}, PreferredVersion: gv("v2")}
	if got := versionsOf(g); !slices.Equal(got, []string{"v2", "v1"}) {
		t.Errorf("got %v", got)
	}
	// A version that cannot be discovered for a while keeps its place, so that no monitor moves.
	for name, c := range map[string]struct{ now, before, want []string }{
		"not listed":      {[]string{"v1"}, []string{"v2", "v1"}, []string{"v2", "v1"}},
		"listed last":     {[]string{"v1", "v2"}, []string{"v2", "v1"}, []string{"v2", "v1"}},
		"never seen":      {[]string{"v1"}, []string{"v1"}, []string{"v1", "v2"}},
		"beside a new":    {[]string{"v3", "v1"}, []string{"v2", "v1"}, []string{"v2", "v1", "v3"}},
		"another is gone": {[]string{"v2"}, []string{"v1", "v2"}, []string{"v2"}},
	} {
		v := versions{order: map[string][]string{exampleGroup: c.now}}
		v.keepOrder(schema.GroupVersion{Group: exampleGroup, Version: "v2"}, c.before)
		if got := v.order[exampleGroup]; !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// answers is a discovery client that always gives the same answer.
type answers struct {
	discovery.DiscoveryInterface
	groups []*metav1.APIGroup
	lists  []*metav1.APIResourceList
	failed map[schema.GroupVersion]error
}

func (a answers) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	if a.failed == nil {
		return a.groups, a.lists, nil
	}
	return a.groups, a.lists, &discovery.ErrGroupDiscoveryFailed{Groups: a.failed}
}

// What discovery has shown is kept while discovery fails, whichever way the server reports the
// failure. Nothing is assumed about the rest.
func TestDiscoveryThatFailsKeepsWhatWasKnown(t *testing.T) {
	w := newWorld(t)
	whatever, err := discovery.NewDiscoveryClientForConfig(w.config)
	w.must(err)
	gv := func(v string) schema.GroupVersion { return schema.GroupVersion{Group: exampleGroup, Version: v} }
	list := func(v string) *metav1.APIResourceList {
		return &metav1.APIResourceList{GroupVersion: gv(v).String(), APIResources: []metav1.APIResource{
			{Name: "widgets", Kind: "Widget", Verbs: metav1.Verbs{"get", "list", "watch", "delete"}},
		}}
	}
	group := &metav1.APIGroup{Name: exampleGroup, Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: gv("v2").String()}, {GroupVersion: gv("v1").String()}}}
	whole := answers{whatever, []*metav1.APIGroup{group}, []*metav1.APIResourceList{list("v2"), list("v1")}, nil}
	half := &metav1.APIGroup{Name: exampleGroup, Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: gv("v1").String()}}}
	no := errors.New("no")
	for name, c := range map[string]struct {
		known    bool
		answer   answers
		versions []string
		never    []schema.GroupVersion
	}{
		"a version":                 {true, answers{whatever, whole.groups, []*metav1.APIResourceList{list("v1")}, map[schema.GroupVersion]error{gv("v2"): no}}, []string{"v2", "v1"}, nil},
		"a version not listed":      {true, answers{whatever, []*metav1.APIGroup{half}, []*metav1.APIResourceList{list("v1")}, map[schema.GroupVersion]error{gv("v2"): no}}, []string{"v2", "v1"}, nil},
		"a group not listed":        {true, answers{whatever, nil, nil, map[schema.GroupVersion]error{gv("v2"): no, gv("v1"): no}}, []string{"v2", "v1"}, nil},
		"a version never seen":      {false, answers{whatever, whole.groups, []*metav1.APIResourceList{list("v1")}, map[schema.GroupVersion]error{gv("v2"): no}}, []string{"v1"}, []schema.GroupVersion{gv("v2")}},
		"a group that is gone":      {true, answers{whatever, nil, nil, nil}, nil, nil},
		"a version that is no more": {true, answers{whatever, []*metav1.APIGroup{half}, []*metav1.APIResourceList{list("v1")}, nil}, []string{"v1"}, nil},
	} {
		var v versions
		if c.known {
			_, err := v.discover(t.Context(), whole, nil)
			w.must(err)
		}
		found, err := v.discover(t.Context(), c.answer, nil)
		w.must(err)
		var got []string
		if r := found.catalog.Resource(schema.GroupResource{Group: exampleGroup, Resource: "widgets"}); r != nil {
			got = r.Versions
		}
		if !slices.Equal(got, c.versions) || !slices.Equal(found.never, c.never) {
			t.Errorf("%s: versions %v, never seen %v", name, got, found.never)
		}
	}
	if _, err := (&versions{}).discover(t.Context(), failing{whatever}, nil); err == nil {
		t.Error("a server that says nothing serves nothing")
	}
}

// failing is a discovery client that always fails.
type failing struct{ discovery.DiscoveryInterface }

func (failing) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	return nil, nil, errors.New("no")
}
