package reaptest_test

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/reap-dev/reap/reaptest"
)

func TestPool(t *testing.T) {
	t.Parallel()
	prepared := 0
	pool := &reaptest.Pool{Prepare: func(ctx context.Context, s *reaptest.Server) error {
		prepared++
		_, err := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("default").Create(ctx, configMap("prepared"), metav1.CreateOptions{})
		return err
	}}
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			_ = pool.Stop() // the test has failed
		}
	})
	var lent []*reaptest.Server
	for range 2 {
		t.Run("alone", func(t *testing.T) {
			s := pool.Start(t)
			lent = append(lent, s)
			c := clientOf(t, s)
			c.create(t, "left") // fails if the test before has left it
			if err := c.CoreV1().ConfigMaps("default").Delete(t.Context(), "prepared", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	if lent[0] != lent[1] || prepared != 1 {
		t.Errorf("two tests got servers %p and %p; %d were prepared", lent[0], lent[1], prepared)
	}
	t.Run("side by side", func(t *testing.T) {
		a, b := pool.Start(t), pool.Start(t)
		if a == b {
			t.Error("two users have one server")
		}
		_, err := clientOf(t, b).CoreV1().ConfigMaps("default").Get(t.Context(), "left", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("reading what another test has made: %v", err)
		}
		if err := a.Stop(); err != nil { // it cannot be reset
			t.Error(err)
		}
		lent = append(lent, a, b)
	})
	t.Run("after one has ended", func(t *testing.T) {
		if s := pool.Start(t); s != lent[3] {
			t.Error("it is not the server that is left")
		}
	})
	stopped = true
	if err := pool.Stop(); err != nil {
		t.Error(err)
	}
}

func TestPoolWhosePreparationFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	pool := &reaptest.Pool{Prepare: func(context.Context, *reaptest.Server) error { return broken }}
	f := failing{TB: t}
	f.do(func() { pool.Start(&f) })
	if f.said != broken.Error() {
		t.Errorf("the test fails with %q", f.said)
	}
}
