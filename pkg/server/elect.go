package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	// leaseName is that of the stock controller manager, whose place the leader
	// takes: the bootstrap policy lets its user hold this lease and no other, and
	// the two can never run against one datastore at once.
	leaseName     = "kube-controller-manager"
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// lead is what a leader does until its context ends. It sends every write
// through a configuration that fence has wrapped.
type lead func(ctx context.Context, fence func(*rest.Config) *rest.Config) error

// elect takes part in the election, and leads whenever this server is elected,
// until ctx ends or leading fails. What a leader knows ends with its term. The
// lease is given back only when the leader's work has ended.
func elect(ctx context.Context, config *rest.Config, work lead) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("preparing the election: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("preparing the election: %w", err)
	}
	identity := host + "_" + rand.String(8)
	log := logrus.WithFields(logrus.Fields{"lease": metav1.NamespaceSystem + "/" + leaseName, "identity": identity})
	log.Info("waiting to lead: other servers may use this datastore")
	for ctx.Err() == nil {
		if err := oneTerm(ctx, client, identity, log, work); err != nil {
			return err
		}
	}
	return nil
}

// oneTerm waits to be elected and leads until ctx ends or the lease is lost.
func oneTerm(ctx context.Context, client kubernetes.Interface, identity string, log *logrus.Entry, work lead) error {
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, metav1.NamespaceSystem, leaseName,
		client.CoreV1(), client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity})
	if err != nil {
		return fmt.Errorf("preparing the election: %w", err)
	}
	term := &term{Interface: lock}
	// The candidate outlives ctx while it leads: the work ends first.
	candidacy, withdraw := context.WithCancel(context.WithoutCancel(ctx))
	defer withdraw()
	var leading atomic.Bool
	stop := context.AfterFunc(ctx, func() {
		if !leading.Load() {
			withdraw()
		}
	})
	defer stop()
	var working sync.WaitGroup
	var failed error
	working.Add(1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            term,
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: true,
		Name:            leaseName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(elected context.Context) {
				defer working.Done()
				defer withdraw()
				leading.Store(true)
				log.Info("leading: controllers and collector start")
				workCtx, end := context.WithCancel(ctx)
				defer end()
				defer context.AfterFunc(elected, end)()
				failed = work(workCtx, term.fence)
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("preparing the election: %w", err)
	}
	elector.Run(candidacy)
	if leading.Load() || term.renewed.Load() != 0 {
		working.Wait()
		log.Info("no longer leading")
	}
	return failed
}

// term is the lock of one term. It remembers when the lease was last renewed.
type term struct {
	resourcelock.Interface
	renewed atomic.Int64 // nanoseconds since start, of the request; 0 for never
}

// start makes monotonic times of the process.
var start = time.Now()

func (t *term) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	sent := time.Since(start)
	err := t.Interface.Create(ctx, r)
	t.note(sent, err)
	return err
}

func (t *term) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	sent := time.Since(start)
	err := t.Interface.Update(ctx, r)
	t.note(sent, err)
	return err
}

func (t *term) note(sent time.Duration, err error) {
	if err == nil {
		t.renewed.Store(int64(sent))
	}
}

// remaining is how long nobody else can lead. It counts from when the renewal
// was sent, so that it is never longer than others think.
func (t *term) remaining() time.Duration {
	return time.Duration(t.renewed.Load()) + leaseDuration - time.Since(start)
}

// fence makes every write through the configuration end with the lease at the
// latest, and refuses it when the lease is over.
func (t *term) fence(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return &fenced{term: t, next: next} })
	return c
}

type fenced struct {
	term *term
	next http.RoundTripper
}

var errLeaseOver = errors.New("the lease is over: another server may lead")

func (f *fenced) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet {
		return f.next.RoundTrip(req)
	}
	left := f.term.remaining()
	if left <= 0 {
		return nil, errLeaseOver
	}
	ctx, cancel := context.WithTimeoutCause(req.Context(), left, errLeaseOver)
	resp, err := f.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &endingBody{ReadCloser: resp.Body, end: cancel}
	return resp, nil
}

// endingBody ends its request's context when it is closed.
type endingBody struct {
	io.ReadCloser
	end context.CancelFunc
}

func (b *endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
