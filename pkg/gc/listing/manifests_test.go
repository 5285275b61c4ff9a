package listing

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/reap-dev/reap/pkg/gc/lint"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// manifests reads objects separated by ---.
func manifests(t *testing.T, text string) (all []*unstructured.Unstructured) {
	t.Helper()
	for doc := range strings.SplitSeq(text, "---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatal(err)
		}
		all = append(all, u)
	}
	return all
}

const backup = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: restored, uid: old, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [foregroundDeletion]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: stale, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: restored, uid: old}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: kept, namespace: ns, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: living, uid: living-1}]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: r1, uid: r1-1, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: r2, uid: r2-1}]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: r2, uid: r2-1, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: r1, uid: r1-1}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: gone, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: none, uid: none}]}}
---
{apiVersion: example.com/v1, kind: Widget, metadata: {name: w, uid: w, namespace: ns}}
---
{apiVersion: v1, kind: Pod, metadata: {name: ofnew, ownerReferences: [{apiVersion: example.com/v1, kind: Widget, name: w, uid: w}]}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.example.com}, spec: {group: example.com, scope: Namespaced, names: {plural: widgets, kind: Widget}, versions: [{name: v1, served: true}]}}
---
{apiVersion: odd.example.com/v1, kind: Gadget, metadata: {name: g, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: none, uid: none}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: edge-1, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: living, uid: living-1}]}}
`

// TestManifestsAreJudgedAsIfTheyWereApplied: the findings are those after the manifests have been
// applied to the existing cluster.
func TestManifestsAreJudgedAsIfTheyWereApplied(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"living", "r1", "r2"} {
		w.create("configmaps", name)
	}
	objects := manifests(t, backup)
	r, keys, err := Manifests(t.Context(), w.config, objects, "ns")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Graph.Check(); err != nil {
		t.Error(err)
	}
	if len(keys) != len(objects) || !strings.HasPrefix(string(keys[0].UID), lint.NewUID) || keys[3].UID != "r1-1" {
		t.Errorf("the manifests have the keys %v", keys)
	}
	var got []string
	for _, f := range lint.Run(lint.Input{Graph: r.Graph, View: r.Graph.View, Now: r.Now}).Findings {
		got = append(got, fmt.Sprintf("%s %s %s", f.Effect, f.Code, f.Object.Record.Name))
	}
	want := []string{
		"collected wrong-uid stale", "collected wrong-uid ofnew", "collected dangling gone", "collected dangling g",
		"kept cluster-scoped edge-1", "kept unreachable-ring r1",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, c := range w.Calls(0) {
		if c.Verb != "discover" && c.Verb != "get" && c.Resource != "apiservices" {
			t.Errorf("judging manifests made the call %s", c)
		}
	}
}

func TestManifestsWhoseOwnersMayNotBeRead(t *testing.T) {
	w := newWorld(t)
	w.create("configmaps", "r1")
	w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		if c.Verb == "get" {
			return fakeapi.Fail(http.StatusForbidden, metav1.StatusReasonForbidden)
		}
		return nil
	})
	r, _, err := Manifests(t.Context(), w.config, manifests(t, backup), "ns")
	if err != nil || len(r.Gaps) == 0 {
		t.Fatalf("%v, %v", r, err)
	}
	for _, f := range lint.Run(lint.Input{Graph: r.Graph, View: r.Graph.View, Now: r.Now}).Findings {
		if f.Effect == lint.Collected && f.Object.Record.Name != "ofnew" {
			t.Errorf("%s is said to be collected, though no owner could be read", f.Object.Record.Name)
		}
	}
}
