package listing

import (
	"net/http"
	"testing"

	"github.com/reap-dev/reap/pkg/gc/relink"
	"github.com/reap-dev/reap/tests/fakeapi"
)

// TestOnlyTheResourcesOwnNotFoundProvesAbsence: a 404 of a proxy says nothing about the owner.
func TestOnlyTheResourcesOwnNotFoundProvesAbsence(t *testing.T) {
	w := newWorld(t)
	w.create("pods", "child", "ghost")
	r := w.list(Options{})
	dangling := relink.Find(relink.Input{Graph: r.Graph, Now: r.Now})
	if len(dangling) != 1 {
		t.Fatalf("dangling references are %v, want one", dangling)
	}
	occupant := func() relink.Occupant {
		t.Helper()
		all, err := Occupants(t.Context(), w.config, dangling)
		at, read := all[dangling[0].Owner.At]
		if err != nil || !read {
			t.Fatalf("%v, %v", all, err)
		}
		return at
	}
	if at := occupant(); at.Record != nil || at.Err != nil {
		t.Errorf("an owner that is gone: %+v", at)
	}
	w.SetFault(func(c fakeapi.Call) http.HandlerFunc {
		if c.Verb == "get" {
			return fakeapi.NotServed
		}
		return nil
	})
	if at := occupant(); at.Record != nil || at.Err == nil {
		t.Errorf("an owner that a proxy does not know: %+v", at)
	}
}
