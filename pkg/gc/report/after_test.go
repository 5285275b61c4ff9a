package report

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAfterwards: reports on what a command has changed, as text and JSON.
func TestAfterwards(t *testing.T) {
	one := Object{Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web", UID: "1"}
	two := Object{Resource: "configmaps", Namespace: "shop", Name: "settings", UID: "2"}
	deleted := func(d Deleted) Deleted {
		d.Version, d.Server, d.Policy, d.Seconds = DeletedVersion, "https://127.0.0.1:6443", "Background", 4.25
		return d
	}
	released := NewRelease(two, []string{"example.com/hold", metav1.FinalizerDeleteDependents}, metav1.FinalizerDeleteDependents, &Objects{Count: 1, First: []Object{one}})
	released.Released = true
	for name, reports := range map[string][]interface{ Print(io.Writer) error }{
		"deleted": {
			deleted(Deleted{Requested: []Object{one, two}, Gone: 5}),
			deleted(Deleted{Requested: []Object{one}, Gone: 3, Left: 2}),
			deleted(Deleted{Requested: []Object{one, two}}),
			deleted(Deleted{Failed: []NotDeleted{{Object: one, Error: "forbidden"}}}),
		},
		"release": {
			NewRelease(two, []string{"example.com/hold"}, "example.com/hold", nil),
			NewRelease(two, []string{metav1.FinalizerOrphanDependents}, metav1.FinalizerOrphanDependents, &Objects{}),
			released,
		},
	} {
		var out bytes.Buffer
		for _, r := range reports {
			if err := r.Print(&out); err != nil {
				t.Fatal(err)
			}
			e := json.NewEncoder(&out)
			e.SetIndent("", "  ")
			if err := e.Encode(r); err != nil {
				t.Fatal(err)
			}
		}
		golden(t, name, out.Bytes())
	}
}
