// Package elect elects a leader among several processes, by a Lease in the API that they
// share.
//
// It promises, as far as a client can, that the writes of two leaders do not overlap: every
// write that a leader sends through its fence ends before its lease expires. It makes no
// promise about requests that the API server has already received when the process is
// suspended for longer than the lease.
package elect

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The timing of the Lease, the same as for Kubernetes' own components.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// Options configures an election.
type Options struct {
	// Config is the client configuration for the API server that stores the Lease.
	Config *rest.Config
	// Namespace and Name identify the Lease. All candidates of an election use the same.
	Namespace, Name string
	// Follows is called, perhaps while this process leads already, when another process is seen to hold the lease.
	Follows func(holder string)
	Log     *logrus.Entry
}

// Lead is the work of a leader. It returns when its context is cancelled, and sends every
// write through a configuration that fence has wrapped.
type Lead func(ctx context.Context, fence func(*rest.Config) *rest.Config) error

// Run takes part in the election and calls work whenever this process is elected, until ctx
// is cancelled or work returns an error, which Run returns. work must keep no state from an
// earlier term. Run releases the lease only after work has returned.
func Run(ctx context.Context, o Options, work Lead) error {
	leases, err := coordinationv1.NewForConfig(o.Config)
	if err != nil {
		return fmt.Errorf("preparing the election: %w", err)
	}
	return run(ctx, leases, o, work)
}

func run(ctx context.Context, leases coordinationv1.LeasesGetter, o Options, work Lead) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("preparing the election: %w", err)
	}
	c := &candidate{leases: leases, Options: o, identity: host + "_" + rand.String(8), work: work}
	c.Log = o.Log.WithFields(logrus.Fields{"lease": o.Namespace + "/" + o.Name, "identity": c.identity})
	c.Log.Info("waiting to lead")
	for ctx.Err() == nil {
		if err := c.serve(ctx); err != nil {
			return err
		}
	}
	return nil
}

// candidate takes part in an election.
type candidate struct {
	Options
	leases   coordinationv1.LeasesGetter
	identity string
	work     Lead
}

// serve waits to be elected and leads until ctx is cancelled or the lease is lost.
func (c *candidate) serve(ctx context.Context) error {
	t := &term{Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name},
		Client:     c.leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: c.identity},
	}}
	// A leader remains a candidate after ctx is cancelled, until the work has ended.
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
		Lock:            t,
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: true,
		Name:            c.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(elected context.Context) {
				defer working.Done()
				defer withdraw()
				leading.Store(true)
				c.Log.Info("leading")
				workCtx, end := context.WithCancel(ctx)
				defer end()
				defer context.AfterFunc(elected, end)()
				failed = c.work(workCtx, t.fence)
				t.ended.Store(true)
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(holder string) {
				if holder != "" && holder != c.identity && c.Follows != nil {
					c.Follows(holder)
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("preparing the election: %w", err)
	}
	elector.Run(candidacy)
	if t.began.Load() { // then the elector has called OnStartedLeading, or is about to
		working.Wait()
		c.Log.Info("no longer leading")
	}
	return failed
}
