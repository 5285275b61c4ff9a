package reaptest

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// A controller that still runs makes its object again and again.
func TestResetNamesWhatDoesNotGo(t *testing.T) {
	s := runServer(t)
	maps := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("default")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_, _ = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "again"}}, metav1.CreateOptions{}) // is there, mostly
		}
	}()
	s.resetWithin = 2 * time.Second
	_, err := s.reset(t.Context())
	stop()
	<-ended
	for _, want := range []string{"after 2s", "configmaps/again in namespace default: is still there"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the error: %v", want, err)
		}
	}
	s.resetWithin = resetWithin
	if _, err := s.reset(t.Context()); err != nil {
		t.Errorf("once that has ended: %v", err)
	}
}

func TestResetOfAServerThatHasEnded(t *testing.T) {
	s := runServer(t)
	s.process.kill()
	if _, err := s.reset(t.Context()); err == nil || !strings.Contains(err.Error(), "the server ended by itself") {
		t.Errorf("it says %v", err)
	}
}
