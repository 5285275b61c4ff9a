package act

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/reap-dev/reap/pkg/gc/graph"
	"github.com/reap-dev/reap/tests/bubble"
)

// through returns an Actor whose requests transport answers, without a network.
func through(t *testing.T, transport func(*http.Request) (*http.Response, error), allow func() error) *Actor {
	t.Helper()
	config := &rest.Config{Host: "http://server.invalid", QPS: -1, Transport: roundTripper(transport)}
	clients, err := ClientsFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return New(clients, allow, func(Verb, Outcome) {})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

// calls makes each call of an Actor once.
var calls = map[string]func(context.Context, *Actor) error{
	"read": func(ctx context.Context, a *Actor) error {
		_, _, err := a.Read(ctx, configMaps, "ns", "n", "u")
		return err
	},
	"read of the status": func(ctx context.Context, a *Actor) error {
		_, _, err := a.ReadStatus(ctx, configMaps, "ns", "n", "u")
		return err
	},
	"list": func(ctx context.Context, a *Actor) error {
		return a.List(ctx, configMaps, "ns", func(*graph.Record) {})
	},
	"delete": func(ctx context.Context, a *Actor) error {
		_, err := a.Delete(ctx, configMaps, aRecord(), Deletion{Policy: metav1.DeletePropagationBackground})
		return err
	},
	"drop": func(ctx context.Context, a *Actor) error {
		_, err := a.DropReferences(ctx, configMaps, aRecord(), aRecord().References)
		return err
	},
	"replacement of references": func(ctx context.Context, a *Actor) error {
		_, err := a.SetReferences(ctx, configMaps, aRecord(), aRecord().References)
		return err
	},
	"unblock": func(ctx context.Context, a *Actor) error {
		_, err := a.Unblock(ctx, configMaps, aRecord(), aRecord().References)
		return err
	},
	"removal of a finalizer": func(ctx context.Context, a *Actor) error {
		m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "n", UID: "u", ResourceVersion: "7"}}
		_, err := a.RemoveFinalizer(ctx, &Object{Resource: configMaps, Metadata: m}, metav1.FinalizerOrphanDependents)
		return err
	},
}

func aRecord() *graph.Record {
	return &graph.Record{Namespace: "ns", Name: "n", UID: "u", ResourceVersion: "7", References: []graph.Reference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "o", BlockOwnerDeletion: graph.True},
	}}
}

// A server that accepts a connection and says nothing must not keep a worker for ever.
func TestNoCallOutlivesItsTimeout(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				a := through(t, func(r *http.Request) (*http.Response, error) {
					select {
					case <-r.Context().Done():
					case <-time.After(time.Hour): // only so that the test ends without a timeout
					}
					return nil, r.Context().Err()
				}, func() error { return nil })
				began := time.Now()
				err := call(t.Context(), a)
				if !errors.Is(err, errTimeout) {
					t.Errorf("the error is %v", err)
				}
				if took := time.Since(began); took != callTimeout {
					t.Errorf("the call took %s, want %s", took, callTimeout)
				}
			})
		})
	}
}

// During a pause no write is even sent; reads are.
func TestRefusedWriteIsNotSent(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			sent := 0
			a := through(t, func(*http.Request) (*http.Response, error) {
				sent++
				return nil, errors.New("the server is down")
			}, func() error { return ErrPaused })
			err := call(t.Context(), a)
			reads := map[string]bool{"read": true, "read of the status": true, "list": true}[name]
			if (sent > 0) != reads || errors.Is(err, ErrPaused) == reads {
				t.Errorf("%d requests were sent; the error is %v", sent, err)
			}
		})
	}
}

// An object may carry the finalizer before anybody deletes it: such an owner is solid.
func TestOwnerWithTheFinalizerWaitsOnlyOnceDeleted(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		m := metav1.ObjectMeta{Name: "owner", Namespace: "ns", UID: "uid", ResourceVersion: "7", Finalizers: []string{metav1.FinalizerDeleteDependents}}
		if deleted {
			m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}
		fact, err := against(t, found(m)).Verify(t.Context(), graph.OwnerView{
			Reference: graph.Reference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "uid"},
			Resource:  &graph.Resource{Name: "configmaps", Kind: "ConfigMap", Versions: []string{"v1"}, Namespaced: true},
			At:        graph.Coordinates{Kind: "ConfigMap", Namespace: "ns", Name: "owner"},
		}, time.Unix(2, 0))
		if err != nil || fact.State != graph.Present || fact.Waiting != deleted {
			t.Errorf("deleted %v: %+v, %v", deleted, fact, err)
		}
		if want := map[bool]string{true: "7"}[deleted]; fact.Version != want {
			t.Errorf("deleted %v: at version %q", deleted, fact.Version)
		}
	}
}

// The API server treats an absent blockOwnerDeletion as false. A client that compares
// the stored references with those it wrote does not.
func TestUnblockWritesFalse(t *testing.T) {
	yes, no := true, false
	rec := aRecord()
	rec.References = append(rec.References, graph.Reference{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "x", BlockOwnerDeletion: graph.True})
	a := against(t, func(w http.ResponseWriter, r *http.Request) {
		var patch struct{ Metadata metav1.ObjectMeta }
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
			t.Error(err)
		}
		for i, want := range []*bool{&no, &yes} {
			if got := patch.Metadata.OwnerReferences[i].BlockOwnerDeletion; got == nil || *got != *want {
				t.Errorf("blockOwnerDeletion of %s is %v", patch.Metadata.OwnerReferences[i].Name, got)
			}
		}
		found(patch.Metadata)(w, r)
	})
	if outcome, err := a.Unblock(t.Context(), configMaps, rec, rec.References[:1]); outcome != Done || err != nil {
		t.Errorf("%v, %v", outcome, err)
	}
}

// With a resourceVersion a cache could answer, and that proves nothing. Without a limit
// the whole list would arrive in one response.
func TestReadsAndListsBypassCaches(t *testing.T) {
	for _, name := range []string{"read", "read of the status", "list"} {
		asked := ""
		a := through(t, func(r *http.Request) (*http.Response, error) {
			asked = r.URL.RequestURI()
			return nil, errors.New("the server is down")
		}, func() error { return nil })
		if err := calls[name](t.Context(), a); err == nil {
			t.Errorf("%s: no error", name)
		}
		want := "/api/v1/namespaces/ns/configmaps/n"
		if name == "list" {
			want = "/api/v1/namespaces/ns/configmaps?limit=500"
		}
		if asked != want {
			t.Errorf("%s: asked %s, want %s", name, asked, want)
		}
	}
}

// A reference is judged at its own coordinates, and these include its version.
func TestOwnerIsReadAtTheReferencesVersion(t *testing.T) {
	asked := ""
	a := through(t, func(r *http.Request) (*http.Response, error) {
		asked = r.URL.RequestURI()
		return nil, errors.New("the server is down")
	}, func() error { return nil })
	_, err := a.Verify(t.Context(), graph.OwnerView{
		Reference: graph.Reference{APIVersion: "example.com/v1", Kind: "Widget", Name: "owner", UID: "uid"},
		Resource:  &graph.Resource{Group: "example.com", Name: "widgets", Kind: "Widget", Versions: []string{"v2", "v1"}, Namespaced: true},
		At:        graph.Coordinates{Group: "example.com", Kind: "Widget", Namespace: "ns", Name: "owner"},
	}, time.Unix(1, 0))
	if want := "/apis/example.com/v1/namespaces/ns/widgets/owner"; err == nil || asked != want {
		t.Errorf("asked %s, want %s (%v)", asked, want, err)
	}
}
