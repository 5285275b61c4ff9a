package reaptest_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/reap-dev/reap/reaptest"
)

// patience bounds every wait; passing tests never get near it.
const patience = time.Minute

type client struct{ kubernetes.Interface }

func clientOf(t *testing.T, s *reaptest.Server) client {
	t.Helper()
	c, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client{c}
}

// mustServe proves that the server answers, to someone who may write.
func (c client) mustServe(t *testing.T) {
	t.Helper()
	c.create(t, "probe")
}

func (c client) create(t *testing.T, name string) {
	t.Helper()
	_, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), configMap(name), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// awaitIn waits until cond holds, and fails the test with what cond saw instead if it never does.
func awaitIn(t *testing.T, what string, cond func() (ok bool, saw any)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, saw := cond()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v; last seen: %v", what, ctx.Err(), saw)
		}
	}
}
