package reaptest_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reap-dev/reap/reaptest"
)

// recorded is a test that keeps what it fails with, and whose time is short.
type recorded struct {
	testing.TB
	ctx     context.Context
	failure string
	logged  string
}

func (r *recorded) Context() context.Context { return r.ctx }

func (r *recorded) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorded) Logf(format string, args ...any) { r.logged += fmt.Sprintf(format, args...) + "\n" }

// fails returns what the test in f fails with, and "" if it passes.
func fails(t *testing.T, f func(testing.TB)) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r := &recorded{TB: t, ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r.failure
}

func TestGone(t *testing.T) {
	s := reaptest.Start(t)
	maps := clientOf(t, s).CoreV1().ConfigMaps("default")
	owner, err := maps.Create(t.Context(), configMap("owner"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owned := configMap("owned")
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
	if owned, err = maps.Create(t.Context(), owned, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), owner.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Gone(t, owner, owned)

	// Another object has the name; without a UID there is only the name.
	if _, err := maps.Create(t.Context(), configMap("owner"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Gone(t, owner)
	absent := &unstructured.Unstructured{}
	absent.SetAPIVersion("v1")
	absent.SetKind("Namespace")
	absent.SetName("absent")
	s.Gone(t, absent)
}

func TestGoneSaysWhyAnObjectIsLeft(t *testing.T) {
	s := reaptest.Start(t)
	maps := clientOf(t, s).CoreV1().ConfigMaps("default")
	held := configMap("held")
	held.Finalizers = []string{"example.com/archive"}
	held, err := maps.Create(t.Context(), held, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), held.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	got := fails(t, func(t testing.TB) { s.Gone(t, held) })
	if !strings.Contains(got, "configmaps/held") || !strings.Contains(got, "example.com/archive") {
		t.Errorf("it fails with %q", got)
	}
}

func TestGoneOfAnUnknownKind(t *testing.T) {
	known := apiruntime.NewScheme()
	known.AddKnownTypes(schema.GroupVersion{Version: "v1"}, &corev1.ConfigMap{})
	s := reaptest.Start(t, reaptest.WithScheme(known))
	s.Gone(t, configMap("absent"))
	if got := fails(t, func(t testing.TB) { s.Gone(t, &corev1.Secret{}) }); !strings.Contains(got, "WithScheme") {
		t.Errorf("it fails with %q", got)
	}
	book := &unstructured.Unstructured{}
	book.SetAPIVersion("example.com/v1")
	book.SetKind("Book")
	if got := fails(t, func(t testing.TB) { s.Gone(t, book) }); !strings.Contains(got, "Book") {
		t.Errorf("it fails with %q", got)
	}
}
