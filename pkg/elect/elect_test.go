package elect

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/kubernetes/typed/coordination/v1/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/reap-dev/reap/tests/bubble"
	"github.com/reap-dev/reap/tests/jump"
)

// server keeps Leases.
type server struct {
	*fake.FakeCoordinationV1
	mu     sync.Mutex
	refuse func(clienttesting.Action) bool // nil for nothing
}

var errDown = errors.New("the server is down")

func newServer() *server {
	s := &server{FakeCoordinationV1: &fake.FakeCoordinationV1{Fake: &clienttesting.Fake{}}}
	tracker := clienttesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder())
	s.AddReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.refuse != nil && s.refuse(a) {
			return true, nil, errDown
		}
		return clienttesting.ObjectReaction(tracker)(a)
	})
	return s
}

func (s *server) setRefuse(refuse func(clienttesting.Action) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = refuse
}

func everything(clienttesting.Action) bool { return true }

// renewals counts all writes except those that release the lease.
func renewals(a clienttesting.Action) bool {
	u, ok := a.(clienttesting.UpdateAction)
	return ok && *u.GetObject().(*coordinationv1.Lease).Spec.HolderIdentity != ""
}

func (s *server) lease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	l, err := s.Leases("ns").Get(t.Context(), "lease", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// holder returns the identity that holds the lease; "" if nobody does.
func (s *server) holder(t *testing.T) string {
	t.Helper()
	if h := s.lease(t).Spec.HolderIdentity; h != nil {
		return *h
	}
	return ""
}

func options() Options {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return Options{Namespace: "ns", Name: "lease", Log: logrus.NewEntry(log)}
}

// sender sends requests through a fence to a server that answers all of them, after delay.
type sender struct {
	http  http.RoundTripper
	sent  int
	delay time.Duration
}

func newSender(t *testing.T, fence func(*rest.Config) *rest.Config) *sender {
	t.Helper()
	s := &sender{}
	var err error
	s.http, err = rest.TransportFor(fence(&rest.Config{Transport: answer(func(r *http.Request) (*http.Response, error) {
		s.sent++
		select {
		case <-time.After(s.delay):
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	})}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type answer func(*http.Request) (*http.Response, error)

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func (s *sender) send(method string) error {
	r, err := http.NewRequest(method, "http://server.invalid/", nil)
	if err != nil {
		return err
	}
	resp, err := s.http.RoundTrip(r)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func TestWritesEndWithTheLease(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		now := time.Now()
		tm := &term{}
		s := newSender(t, tm.fence)
		if err := s.send(http.MethodDelete); !errors.Is(err, errLeaseOver) || s.sent != 0 {
			t.Errorf("before the lease is held: %v, %d sent", err, s.sent)
		}
		tm.renewed.Store(&now)
		if err := s.send(http.MethodDelete); err != nil {
			t.Errorf("while it is held: %v", err)
		}
		s.delay = time.Minute
		if err := s.send(http.MethodDelete); !errors.Is(err, errLeaseOver) || s.sent != 2 {
			t.Errorf("unanswered when the lease ends: %v, %d sent", err, s.sent)
		}
		if took := time.Since(now); took != leaseDuration {
			t.Errorf("the write ended after %v", took)
		}
		if err := s.send(http.MethodPatch); !errors.Is(err, errLeaseOver) || s.sent != 2 {
			t.Errorf("after the lease: %v, %d sent", err, s.sent)
		}
		if err := s.send(http.MethodGet); err != nil || s.sent != 3 {
			t.Errorf("a read after the lease: %v", err)
		}
	})
}

// slowLock takes a second for each write, which can be made to fail.
type slowLock struct {
	resourcelock.Interface
	err error
}

func (l *slowLock) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	time.Sleep(time.Second)
	return l.err
}

// Other candidates count from when the server has received the renewal, or later.
func TestLeaseCountsFromWhenItsRenewalWasSent(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		lock := &slowLock{}
		tm := &term{Interface: lock}
		mine := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
		if err := tm.Update(t.Context(), mine); err != nil {
			t.Fatal(err)
		}
		if left := tm.remaining(); left != leaseDuration-time.Second {
			t.Errorf("%v left", left)
		}
		lock.err = errDown
		if err := tm.Update(t.Context(), mine); !errors.Is(err, errDown) {
			t.Fatal(err)
		}
		if left := tm.remaining(); left != leaseDuration-2*time.Second {
			t.Errorf("%v left after a renewal that failed", left)
		}
	})
}

// Somebody sets the clock while the lease is held: it lasts neither longer nor shorter by that.
func TestJumpOfTheClockChangesNoLease(t *testing.T) {
	for _, by := range []time.Duration{20 * 365 * 24 * time.Hour, time.Minute, -time.Minute, -20 * 365 * 24 * time.Hour} {
		tm := &term{}
		before := jump.By(time.Now().Add(-time.Second), by)
		tm.renewed.Store(&before)
		// The machine may be slow.
		if left := tm.remaining(); left > leaseDuration-time.Second || left <= 0 {
			t.Errorf("after a jump of %s %s are left", -by, left)
		}
	}
}

func TestLeaseIsGivenBackWhenTheWorkHasEnded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newServer()
		ctx, cancel := context.WithCancel(t.Context())
		var after *sender
		err := run(ctx, s, options(), func(ctx context.Context, fence func(*rest.Config) *rest.Config) error {
			if s.holder(t) == "" {
				t.Error("it leads without the lease")
			}
			cancel()
			<-ctx.Done()
			time.Sleep(time.Minute) // the work takes long to end; meanwhile the lease is renewed
			if s.holder(t) == "" {
				t.Error("the lease is given back while the leader still works")
			}
			after = newSender(t, fence)
			if err := after.send(http.MethodDelete); err != nil {
				t.Errorf("the leader cannot end in order: %v", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if h := s.holder(t); h != "" {
			t.Errorf("%s still holds the lease", h)
		}
		if err := after.send(http.MethodDelete); !errors.Is(err, errLeaseOver) {
			t.Errorf("a write after the lease was given back: %v", err)
		}
	})
}

// The leader could not renew its lease in time. Its work has not ended yet: a write is under way, so nobody else may lead.
func TestNothingIsWrittenAfterALeaseThatWasLost(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newServer()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		terms := 0
		o := options()
		o.Follows = func(holder string) { t.Errorf("it follows %s, and there is no other", holder) }
		err := run(ctx, s, o, func(ctx context.Context, fence func(*rest.Config) *rest.Config) error {
			terms++
			if terms == 2 {
				cancel()
				return nil
			}
			lost := time.Now()
			s.setRefuse(renewals)
			sender := newSender(t, fence)
			sender.delay = 4 * time.Second
			time.Sleep(renewDeadline - time.Second)
			if ctx.Err() != nil {
				t.Error("the work was ended before the renewal had failed")
			}
			if err := sender.send(http.MethodDelete); err != nil {
				t.Errorf("a write within the lease: %v", err)
			}
			if ctx.Err() == nil {
				t.Error("the work goes on though its lease cannot be renewed")
			}
			if s.holder(t) == "" {
				t.Error("another could lead while a write was under way")
			}
			time.Sleep(time.Until(lost.Add(leaseDuration)))
			if err := sender.send(http.MethodDelete); !errors.Is(err, errLeaseOver) {
				t.Errorf("another may lead by now, and a write ended with %v", err)
			}
			s.setRefuse(nil)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if terms != 2 {
			t.Errorf("led %d times", terms)
		}
	})
}

func TestOneLeadsAndTheOtherFollows(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newServer()
		var mu sync.Mutex
		leading := ""
		lead := func(name string) Lead {
			return func(ctx context.Context, _ func(*rest.Config) *rest.Config) error {
				mu.Lock()
				if leading != "" {
					t.Errorf("%s leads beside %s", name, leading)
				}
				leading = name
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				leading = ""
				mu.Unlock()
				return nil
			}
		}
		who := func() string {
			mu.Lock()
			defer mu.Unlock()
			return leading
		}
		var running sync.WaitGroup
		first, endFirst := context.WithCancel(t.Context())
		second, endSecond := context.WithCancel(t.Context())
		var followed [2][]string
		following := func(i int) Options {
			o := options()
			o.Follows = func(holder string) {
				mu.Lock()
				defer mu.Unlock()
				followed[i] = append(followed[i], holder)
			}
			return o
		}
		running.Go(func() { _ = run(first, s, following(0), lead("first")) })
		synctest.Wait()
		running.Go(func() { _ = run(second, s, following(1), lead("second")) })
		time.Sleep(time.Minute)
		if w := who(); w != "first" {
			t.Errorf("%q leads", w)
		}
		mu.Lock()
		if len(followed[0]) != 0 || !slices.Equal(followed[1], []string{s.holder(t)}) {
			t.Errorf("the leader follows %q, and the other one %q", followed[0], followed[1])
		}
		mu.Unlock()
		endFirst()
		time.Sleep(time.Minute)
		if w := who(); w != "second" {
			t.Errorf("%q leads after the first has ended", w)
		}
		endSecond()
		running.Wait()
	})
}

func TestWorkThatFailsEndsTheElection(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newServer()
		failure := errors.New("no")
		err := run(t.Context(), s, options(), func(context.Context, func(*rest.Config) *rest.Config) error { return failure })
		if !errors.Is(err, failure) {
			t.Errorf("it ended with %v", err)
		}
		if h := s.holder(t); h != "" {
			t.Errorf("%s still holds the lease", h)
		}
	})
}

func TestCandidateThatNeverLedEndsAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newServer()
		s.setRefuse(everything)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		err := run(ctx, s, options(), func(context.Context, func(*rest.Config) *rest.Config) error {
			t.Error("it leads without a lease")
			return nil
		})
		if took := time.Since(began); err != nil || took != time.Hour {
			t.Errorf("%v after %v", err, took)
		}
	})
}
