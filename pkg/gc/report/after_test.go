package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/pkg/gc/relink"
)

// shortened prints a relink plan with at most limit entries of each kind.
type shortened struct {
	Relink
	limit int
}

func (s shortened) Print(out io.Writer) error { return s.PrintPlan(out, s.limit) }

// TestReportsOfChanges: reports on what a command has changed, as text and JSON.
func TestReportsOfChanges(t *testing.T) {
	one := Object{Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web", UID: "1"}
	two := Object{Resource: "configmaps", Namespace: "shop", Name: "settings", UID: "2"}
	deleted := func(d Deleted) Deleted {
		d.Version, d.Server, d.Policy, d.Seconds = DeletedVersion, "https://127.0.0.1:6443", "Background", 4.25
		return d
	}
	released := NewRelease(two, []string{"example.com/hold", metav1.FinalizerDeleteDependents}, metav1.FinalizerDeleteDependents, &Objects{Count: 1, First: []Object{one}})
	released.Released = true
	ownerless := graph.Node{
		Key:    graph.Key{Resource: schema.GroupResource{Resource: "configmaps"}, UID: "2"},
		Record: &graph.Record{Namespace: "shop", Name: "settings", UID: "2"},
	}
	web := graph.Node{Key: graph.Key{Resource: schema.GroupResource{Group: "apps", Resource: "deployments"}, UID: "new"}, Record: &graph.Record{Namespace: "shop", Name: "web", UID: "new"}}
	stale := graph.Reference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "old"}
	plan := relink.Plan{Levels: [][]relink.Change{{{Object: ownerless, Links: []relink.Link{{Reference: stale, Owner: web}, {Reference: stale, Owner: web}}}}}}
	for _, reason := range []relink.Reason{relink.Missing, relink.BeingDeleted, relink.Elsewhere, relink.NotCreated, relink.Unread} {
		left := relink.Left{Object: ownerless, Reference: stale, Reason: reason}
		switch reason {
		case relink.BeingDeleted:
			left.Others = []graph.Node{web}
		case relink.Elsewhere:
			left.Others = []graph.Node{ownerless, web}
		case relink.Unread:
			left.Err = errors.New("forbidden")
		}
		plan.Left = append(plan.Left, left)
	}
	basis := Basis{Source: FromListing, Rules: RulesOfReap, Note: "with your own rights", Objects: 7}
	planned := NewRelink(plan, Scope{Judged: 6}, basis, func(graph.Key) string { return "backup/settings.yaml" })
	shop := Scope{Namespace: "shop", Judged: 1}
	done := NewRelink(plan, shop, basis, nil)
	done.Links[0].Result, done.Links[1].Result, done.Links[1].Error = LinkDone, LinkFailed, "forbidden"
	done.Count()
	for name, reports := range map[string][]interface{ Print(io.Writer) error }{
		"deleted": {
			deleted(Deleted{Requested: []Object{one, two}, Gone: 5}),
			deleted(Deleted{Requested: []Object{one}, Gone: 3, Left: 2}),
			deleted(Deleted{Requested: []Object{one, two}}),
			deleted(Deleted{Requested: []Object{one, two}, Held: true}),
			deleted(Deleted{Failed: []NotDeleted{{Object: one, Error: "forbidden"}}}),
			deleted(Deleted{Failed: []NotDeleted{{Object: one, Error: "forbidden"}, {Object: two, Error: "no answer", Unknown: true}}}),
		},
		"relink": {shortened{planned, 3}, done, shortened{NewRelink(plan, shop, basis, nil), 3}, NewRelink(relink.Plan{}, Scope{Judged: 6}, basis, nil), NewRelink(relink.Plan{}, shop, basis, nil)},
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
