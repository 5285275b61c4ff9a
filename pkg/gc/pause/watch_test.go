package pause

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/typed/core/v1/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/reap-dev/reap/tests/bubble"
)

// server answers calls for the ConfigMap as the test sets it up.
type server struct {
	*fake.FakeCoreV1
	watches chan *watch.FakeWatcher // those that have begun

	mu sync.Mutex
	// read, listed and watched answer calls; nil stands for no ConfigMap.
	read    func() (*corev1.ConfigMap, error)
	listed  func() (*corev1.ConfigMap, error)
	watched error
	reads   int

	told     []string // paused or not, as Watch told it
	failures int
}

var configMaps = schema.GroupResource{Resource: "configmaps"}

func newServer() *server {
	s := &server{FakeCoreV1: &fake.FakeCoreV1{Fake: &clienttesting.Fake{}}, watches: make(chan *watch.FakeWatcher, 100)}
	s.all("")
	s.AddReactor("get", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reads++
		m, err := s.read()
		if m == nil && err == nil {
			err = apierrors.NewNotFound(configMaps, a.(clienttesting.GetAction).GetName())
		}
		return true, m, err
	})
	s.AddReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		l := &corev1.ConfigMapList{}
		m, err := s.listed()
		if m != nil {
			l.Items = append(l.Items, *m)
		}
		return true, l, err
	})
	s.AddWatchReactor("configmaps", func(clienttesting.Action) (bool, watch.Interface, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.watched != nil {
			return true, nil, s.watched
		}
		w := watch.NewFake()
		s.watches <- w
		return true, w, nil
	})
	return s
}

// says answers with a ConfigMap in which paused has the given value, or with none if the
// value is empty.
func says(paused string) func() (*corev1.ConfigMap, error) {
	return func() (*corev1.ConfigMap, error) {
		if paused == "" {
			return nil, nil
		}
		return mapThatSays(paused), nil
	}
}

func mapThatSays(paused string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name}, Data: map[string]string{keyPaused: paused}}
}

func fails(err error) func() (*corev1.ConfigMap, error) {
	return func() (*corev1.ConfigMap, error) { return nil, err }
}

// all makes reads and lists agree.
func (s *server) all(paused string) { s.set(says(paused), says(paused)) }

func (s *server) set(read, listed func() (*corev1.ConfigMap, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read, s.listed = read, listed
}

// play runs Watch against the server while test runs.
func play(t *testing.T, s *server, test func(ctx context.Context)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			Watch(ctx, s, func(state State) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.told = append(s.told, map[bool]string{true: "paused", false: "not paused"}[state.Paused])
			}, func(error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.failures++
			})
		}()
		synctest.Wait()
		test(ctx)
		cancel()
		<-done
	})
}

// want waits until nothing more follows and compares what Watch has reported since the
// last comparison.
func (s *server) want(t *testing.T, what string, want ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.told, want) {
		t.Errorf("%s: told %q, want %q", what, s.told, want)
	}
	s.told = nil
}

func TestFirstReadDecidesAtTheStart(t *testing.T) {
	for paused, want := range map[string]string{"": "not paused", "false": "not paused", "true": "paused"} {
		s := newServer()
		s.all(paused)
		play(t, s, func(context.Context) {
			s.want(t, paused, want)
			if s.reads != 1 {
				t.Errorf("%q: %d reads", paused, s.reads)
			}
		})
	}
}

// A list or a watch that fails does not delay the answer.
func TestFailedListOrWatchDoesNotDelayTheAnswer(t *testing.T) {
	no := errors.New("no")
	s := newServer()
	s.set(says("false"), fails(no))
	play(t, s, func(context.Context) { s.want(t, "no list", "not paused") })
	s = newServer()
	s.watched = no
	play(t, s, func(context.Context) { s.want(t, "no watch", "not paused") })
}

func TestNothingIsKnownBeforeARead(t *testing.T) {
	generic := apierrors.NewGenericServerResponse(404, "get", configMaps, Name, "page not found", 0, true)
	other := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, Namespace)
	for name, err := range map[string]error{"an error": errors.New("no"), "a proxy's 404": generic, "another object's 404": other} {
		s := newServer()
		s.set(fails(err), says(""))
		play(t, s, func(context.Context) {
			time.Sleep(time.Hour)
			s.want(t, name)
			// At most half a minute apart, and a fifth more.
			if s.reads < 100 || s.reads > 140 || s.failures != s.reads {
				t.Errorf("%s: %d reads in an hour, %d failures", name, s.reads, s.failures)
			}
			s.all("")
			time.Sleep(time.Minute)
			s.want(t, name+", later", "not paused")
		})
	}
}

func TestOnlyAReadEndsAPause(t *testing.T) {
	gone := func(w *watch.FakeWatcher) { w.Delete(mapThatSays("true")) }
	ended := func(w *watch.FakeWatcher) { w.Modify(mapThatSays("false")) }
	for name, event := range map[string]func(*watch.FakeWatcher){"shows that it is gone": gone, "shows that it was ended": ended} {
		s := newServer()
		s.all("true")
		play(t, s, func(context.Context) {
			w := <-s.watches
			s.want(t, "at first", "paused")
			event(w)
			s.want(t, "the watch "+name+", and it is there")
			s.set(fails(errors.New("no")), says(""))
			event(w)
			s.want(t, "the watch "+name+", and it cannot be read")
			s.all("")
			time.Sleep(time.Minute) // the read is retried
			s.want(t, "it has gone", "not paused")
		})
	}
}

func TestEmptyListEndsNoPause(t *testing.T) {
	s := newServer()
	s.set(says("true"), says(""))
	play(t, s, func(context.Context) {
		s.want(t, "at first", "paused")
		for range 5 {
			(<-s.watches).Stop()
			time.Sleep(time.Minute)
		}
		s.want(t, "listed again and again")
		s.all("")
		(<-s.watches).Stop()
		time.Sleep(time.Minute)
		s.want(t, "it has gone", "not paused")
	})
}

func TestPauseBeginsWithItsEvent(t *testing.T) {
	s := newServer()
	play(t, s, func(context.Context) {
		w := <-s.watches
		s.want(t, "at first", "not paused")
		s.set(fails(errors.New("no")), says(""))
		w.Add(mapThatSays("true"))
		s.want(t, "it begins, and cannot be read", "paused")
		s.all("false")
		w.Modify(mapThatSays("false"))
		s.want(t, "it ends", "not paused")
		w.Add(mapThatSays("maybe"))
		s.want(t, "nobody can understand it", "paused")
	})
}

// A pause that begins while no watch runs is noticed by the next one.
func TestPauseThatBeginsBetweenTwoWatches(t *testing.T) {
	for name, end := range map[string]func(*watch.FakeWatcher){
		"ended": (*watch.FakeWatcher).Stop,
		"too old": func(w *watch.FakeWatcher) {
			w.Error(&apierrors.NewResourceExpired("too old").ErrStatus)
		},
	} {
		s := newServer()
		play(t, s, func(context.Context) {
			w := <-s.watches
			s.want(t, "at first", "not paused")
			s.all("true")
			end(w)
			time.Sleep(time.Second)
			s.want(t, name, "paused")
			if s.failures != 0 {
				t.Errorf("%s: a failure is told", name)
			}
		})
	}
}

// Once the ConfigMap can be watched again, the state is reported again and so the failure ends.
func TestFailureLastsUntilTheNextWatch(t *testing.T) {
	s := newServer()
	play(t, s, func(context.Context) {
		s.want(t, "at first", "not paused")
		s.set(says(""), fails(errors.New("no")))
		(<-s.watches).Stop()
		time.Sleep(time.Hour)
		s.want(t, "it can be read and not be watched")
		if s.failures < 100 {
			t.Errorf("%d failures are told", s.failures)
		}
		s.all("")
		time.Sleep(time.Minute)
		s.want(t, "all is well", "not paused")
	})
}

func TestReadThatIsNotAnsweredEnds(t *testing.T) {
	s := newServer()
	var answers atomic.Bool
	s.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		if !answers.Load() {
			time.Sleep(callTimeout) // like a call that ends with its context
			return true, nil, context.DeadlineExceeded
		}
		return false, nil, nil
	})
	play(t, s, func(context.Context) {
		time.Sleep(callTimeout)
		s.want(t, "no answer")
		if s.failures != 1 {
			t.Errorf("%d failures are reported, want 1", s.failures)
		}
		answers.Store(true)
		time.Sleep(time.Minute)
		s.want(t, "an answer", "not paused")
	})
}
