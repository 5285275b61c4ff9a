package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/reap-dev/reap/pkg/gc/pause"
	"github.com/reap-dev/reap/tests/bubble"
)

// awaiting runs awaitRelease, and test beside it. released reports, when nothing more happens, whether the controllers that delete may run.
func awaiting(t *testing.T, test func(t *testing.T, maps typedcorev1.ConfigMapsGetter, start func(verified <-chan struct{}) (released func() bool))) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		maps := fake.NewClientset().CoreV1()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		test(t, maps, func(verified <-chan struct{}) func() bool {
			free := make(chan struct{})
			go func() {
				defer close(ended)
				awaitRelease(ctx, maps, verified, free)
			}()
			return func() bool {
				synctest.Wait()
				select {
				case <-free:
					return true
				default:
					return false
				}
			}
		})
		cancel()
		<-ended
	})
}

func hold(t *testing.T, maps typedcorev1.ConfigMapsGetter) {
	t.Helper()
	if _, _, err := pause.Hold(t.Context(), maps, "a test", "restored", time.Now()); err != nil {
		t.Fatal(err)
	}
}

func TestControllersThatDeleteWaitWhileTheyAreHeld(t *testing.T) {
	awaiting(t, func(t *testing.T, maps typedcorev1.ConfigMapsGetter, start func(<-chan struct{}) func() bool) {
		hold(t, maps)
		released := start(nil)
		time.Sleep(time.Hour) // of the bubble's clock: meanwhile many watches end, and a read follows each
		if released() {
			t.Error("they run although they are held")
		}
		m, err := maps.ConfigMaps(pause.Namespace).Get(t.Context(), pause.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m.Data["reason"] = "somebody has looked, and is not done"
		if _, err := maps.ConfigMaps(pause.Namespace).Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if released() {
			t.Error("they run although they are held, for another reason")
		}
		if _, _, err := pause.End(t.Context(), maps, time.Now()); err != nil {
			t.Fatal(err)
		}
		if !released() {
			t.Error("they wait although nothing holds them any more")
		}
	})
}

func TestControllersThatDeleteRunIfNothingHoldsThem(t *testing.T) {
	for what, prepare := range map[string]func(t *testing.T, maps typedcorev1.ConfigMapsGetter){
		"never held": func(*testing.T, typedcorev1.ConfigMapsGetter) {},
		// A pause is for the collector alone.
		"paused": func(t *testing.T, maps typedcorev1.ConfigMapsGetter) {
			if _, _, err := pause.Begin(t.Context(), maps, "a test", "a look", time.Now()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		awaiting(t, func(t *testing.T, maps typedcorev1.ConfigMapsGetter, start func(<-chan struct{}) func() bool) {
			prepare(t, maps)
			if released := start(nil); !released() {
				t.Errorf("%s: they wait", what)
			}
		})
	}
}

// TestControllersThatDeleteWaitForTheCheckOfTheStore, and for the end of a hold behind it; they end with the server before.
func TestControllersThatDeleteWaitForTheCheckOfTheStore(t *testing.T) {
	for _, isHeld := range []bool{false, true} {
		awaiting(t, func(t *testing.T, maps typedcorev1.ConfigMapsGetter, start func(<-chan struct{}) func() bool) {
			if isHeld {
				hold(t, maps)
			}
			verified := make(chan struct{})
			released := start(verified)
			time.Sleep(time.Hour) // of the bubble's clock
			if released() {
				t.Error("they run though the store has not been checked")
			}
			close(verified)
			if released() == isHeld {
				t.Errorf("held: %v, and once the store was checked they run: %v", isHeld, !isHeld)
			}
		})
	}
	awaiting(t, func(_ *testing.T, _ typedcorev1.ConfigMapsGetter, start func(<-chan struct{}) func() bool) {
		start(make(chan struct{}))
	})
}
