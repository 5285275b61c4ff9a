package cli

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/tests/fakeapi"
)

// TestProgressOfWrites: whoever changes many objects sees on a terminal how far that has come.
func TestProgressOfWrites(t *testing.T) {
	for _, tc := range []struct {
		command, shows string
		// cluster returns the kubeconfig of one with three objects to write, of which the last write calls hold.
		cluster func(t *testing.T, hold func()) string
	}{
		{"delete configmaps/a configmaps/b configmaps/c -n ns --yes --wait=false", "deleting", func(t *testing.T, hold func()) string {
			c, kubeconfig := newConfigMapCluster(t, map[string][]string{"a": nil, "b": nil, "c": nil})
			c.late = true
			last := onThird(hold)
			c.refuse = func(string) *apierrors.StatusError { last(); return nil }
			return kubeconfig
		}},
		{"relink -n ns --yes", "relinking", func(t *testing.T, hold func()) string {
			s := fakeapi.New()
			owners := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "before"}}
			if err := s.Create("configmaps", metav1.ObjectMeta{Namespace: "ns", Name: "owner"}); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				if err := s.Create("configmaps", metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("dependent-", i), OwnerReferences: owners}); err != nil {
					t.Fatal(err)
				}
			}
			last := onThird(hold)
			return serveFake(t, s, func(r *http.Request) {
				if r.Method == http.MethodPatch {
					last()
				}
			})
		}},
	} {
		t.Run(tc.shows, func(t *testing.T) {
			ours, theirs := openTerminal(t)
			var screen written
			go func() { _, _ = io.Copy(&screen, ours) }() // ends with the terminal
			shown := make(chan struct{})
			r := prepare(t, append(strings.Fields(tc.command), "--kubeconfig", tc.cluster(t, func() { <-shown }))...)
			r.cmd.Stderr = theirs
			r.begin(t)
			t.Cleanup(sync.OnceFunc(func() {
				select {
				case <-shown:
				default:
					close(shown)
				}
			}))
			await(t, "the bar is drawn", func() bool { return strings.Contains(screen.String(), tc.shows) })
			close(shown)
			if got := r.ended(t); got.code != exitOK {
				t.Errorf("it ends with %+v and %s", got, screen.String())
			}
		})
	}
}

// onThird returns a function whose third call calls hold.
func onThird(hold func()) func() {
	var mu sync.Mutex
	calls := 0
	return func() {
		mu.Lock()
		calls++
		third := calls == 3
		mu.Unlock()
		if third {
			hold()
		}
	}
}
