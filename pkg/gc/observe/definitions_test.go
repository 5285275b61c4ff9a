package observe

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reap-dev/reap/pkg/gc/graph"
)

var exampleWidgets = schema.GroupResource{Group: "example.com", Resource: "widgets"}

func newDefinitions() *definitions {
	return &definitions{known: map[definitionKey]*definition{}, listed: true}
}

// When a CRD is deleted, its objects are gone for good. The objects of an APIService may still exist when it is
// created again.
func TestDeletedCRDEndsItsObjectsAndAPIServiceDoesNot(t *testing.T) {
	d := newDefinitions()
	crd, v1, v2 := crdOf(exampleWidgets), serviceOf(exampleWidgets, "v1"), serviceOf(exampleWidgets, "v2")
	for _, k := range []definitionKey{crd, v1, v2} {
		d.shown(k, "u", false)
	}
	want := func(what string, byCRD, byServices bool) {
		t.Helper()
		for by, want := range map[server]bool{unknown: byCRD, local: byCRD, aggregated: byCRD || byServices} {
			if got := d.end(exampleWidgets, []string{"v1", "v2"}, by); got != want {
				t.Errorf("%s, server %d: ended %v", what, by, got)
			}
		}
	}
	want("all exist", false, false)
	d.ended(v1)
	want("one APIService has gone", false, false)
	d.ended(v2)
	want("both have", false, true)
	d.shown(v1, "u2", false)
	want("one was made again", false, false)
	d.ended(crd)
	want("the CRD has gone", true, true)
	d.shown(crd, "u2", false)
	want("the CRD was made again", true, true)
	d.begin(exampleWidgets)
	want("and its resource is monitored", false, false)
}

func TestDefinitionsAreForgottenOnceTheyHaveGone(t *testing.T) {
	d := newDefinitions()
	for _, name := range []string{"gone", "gone-and-needed", "there"} {
		d.shown(definitionKey{crds, name}, types.UID(name), false)
	}
	d.ended(definitionKey{crds, "gone"})
	d.ended(definitionKey{crds, "gone-and-needed"})
	d.prune(func(k definitionKey) bool { return k.name == "gone-and-needed" })
	var left []string
	for k := range d.known {
		left = append(left, k.name)
	}
	slices.Sort(left)
	if !slices.Equal(left, []string{"gone-and-needed", "there"}) {
		t.Errorf("%v are remembered, want gone-and-needed and there", left)
	}
}

// A CRD that exists and is not served may hide objects, unless it has just been created.
func TestUnservedCRDsMayHideObjects(t *testing.T) {
	catalog := graph.NewCatalog([]*graph.Resource{
		{Group: crds.Group, Name: crds.Resource, Kind: "CustomResourceDefinition", Versions: []string{"v1"}, Monitored: true},
		{Group: "example.com", Name: "served", Kind: "Served", Versions: []string{"v1"}, Monitored: true},
	})
	d := newDefinitions()
	d.listed = false
	for name, first := range map[string]bool{"served.example.com": true, "old.example.com": true, "new.example.com": false, "read.example.com": true, "bad.example.com": false} {
		d.shown(definitionKey{crds, name}, "u", first)
	}
	d.judged("read.example.com", "")
	d.judged("bad.example.com", "why")
	want := func(want ...string) {
		t.Helper()
		var got []string
		for name := range d.hidden(catalog) {
			got = append(got, name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("hidden are %v, want %v", got, want)
		}
	}
	want("bad.example.com", crds.String(), "old.example.com")
	d.allListed()
	want("bad.example.com", "old.example.com")
}

// Only a CRD that was never established cannot have objects. If one serves a version again, its objects stay
// hidden until discovery shows the version.
func TestDefinitionsThatServeNothing(t *testing.T) {
	const unserved, ahead = "its CRD serves no version", "its CRD serves a version that discovery does not show yet"
	for crd, want := range map[string]string{
		`{"spec": {"versions": [{"served": false}, {"served": true}]}, "status": {"conditions": [{"type": "Established", "status": "True"}]}}`:  ahead,
		`{"spec": {"versions": [{"served": false}, {"served": true}]}, "status": {"conditions": [{"type": "Established", "status": "False"}]}}`: "",
		`{"spec": {"versions": [{"served": false}]}, "status": {"conditions": [{"type": "Established", "status": "True"}]}}`:                    unserved,
		`{"spec": {"versions": [{"served": false}]}, "status": {"conditions": [{"type": "Established", "status": "False"}]}}`:                   "",
		`{"spec": {"versions": [{"served": false}]}, "status": {"conditions": [{"type": "NamesAccepted", "status": "True"}]}}`:                  "",
		`{`: "its CRD cannot be read: unexpected end of JSON input",
	} {
		if got := hiddenBy([]byte(crd), nil); got != want {
			t.Errorf("%s: %q, want %q", crd, got, want)
		}
	}
	if got := hiddenBy(nil, errors.New("forbidden")); got == "" {
		t.Error("one that cannot be read hides nothing")
	}
}

// A failed read does not prove a deletion.
func TestDefinitionsEndOnProof(t *testing.T) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	catalog := graph.NewCatalog([]*graph.Resource{{Group: crds.Group, Name: crds.Resource, Kind: "CustomResourceDefinition", Versions: []string{"v1"}, Monitored: true}})
	for _, c := range []struct {
		exists bool
		err    error
		want   bool
	}{{true, nil, false}, {false, nil, true}, {false, errors.New("no"), false}} {
		o := &Observer{log: logrus.NewEntry(log), definitions: definitions{known: map[definitionKey]*definition{}}}
		o.read = func(context.Context, schema.GroupVersionResource, string, string, types.UID) (string, bool, error) {
			return "1", c.exists, c.err
		}
		o.definitions.shown(crdOf(exampleWidgets), "u", false)
		o.confirmEnd(t.Context(), crdOf(exampleWidgets), catalog)
		if got := o.definitions.end(exampleWidgets, nil, local); got != c.want {
			t.Errorf("exists %v, %v: ended %v", c.exists, c.err, got)
		}
	}
}

// A suspended resource without objects holds nothing up.
func TestSuspendedResourceWithoutObjectsHoldsNothing(t *testing.T) {
	w := newWorld(t)
	w.suspended[exampleWidgets] = suspension{versions: []string{"v1"}}
	if got := w.Holding(); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
