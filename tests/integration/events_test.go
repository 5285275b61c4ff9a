package integration

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
)

// eventsOf is the namespace that an object's events are in.
func eventsOf(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return metav1.NamespaceDefault
	}
	return o.GetNamespace()
}

// events returns the events with a reason about an object, which may be gone.
func (s *server) events(ctx context.Context, o *unstructured.Unstructured, reason string) ([]corev1.Event, error) {
	list, err := s.kube.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: fields.Set{
		"involvedObject.uid": string(o.GetUID()), "reason": reason,
	}.String()})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (s *server) awaitEvents(t *testing.T, o *unstructured.Unstructured, reason string) (events []corev1.Event) {
	t.Helper()
	await(t, "events about "+o.GetName(), func(ctx context.Context) (ok bool, saw any) {
		var err error
		events, err = s.events(ctx, o, reason)
		return len(events) > 0, err
	})
	return events
}

// mustHaveNoEvent checks that users were not told that about an object. Events are written in turn: what
// has been told is there once a later event is.
func (s *server) mustHaveNoEvent(t *testing.T, o *unstructured.Unstructured, reason string) {
	t.Helper()
	if events, err := s.events(t.Context(), o, reason); len(events) > 0 || err != nil {
		t.Errorf("%s: %v, error %v", o.GetName(), events, err)
	}
}

// metric returns the value of a series without labels.
func (s *server) metric(t *testing.T, name string) float64 {
	t.Helper()
	raw, err := s.metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(raw), "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, name+" ") })
	if at < 0 {
		t.Fatalf("there is no metric %s", name)
	}
	value, err := strconv.ParseFloat(strings.TrimPrefix(lines[at], name+" "), 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
