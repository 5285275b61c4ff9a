package gc

import (
	"context"
	"errors"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/reap-dev/reap/pkg/gc/report"
)

// restarts are the delays between one collector and the next: a store, or a server that
// answers for it, that goes back again and again must not have everything listed again
// each time.
var restarts = wait.Backoff{Duration: time.Second, Factor: 2, Cap: time.Minute, Steps: 10}

// runsWell is how long a collector has to run for the delays to begin anew.
const runsWell = 10 * time.Minute

// Run runs a collector until ctx ends or the collector fails. When the store has gone back,
// Run starts a new collector after a growing delay: nothing that the first one had proved has
// to hold any more. It returns when every goroutine has ended, with nil if ctx ended. started,
// if not nil, is called each time a collector's workers start. A running collector is in
// Running and in the process's metrics.
func Run(ctx context.Context, o Options, started func()) error {
	RegisterMetrics()
	return restarted(ctx, o.Log, func(ctx context.Context) error {
		c, err := New(o)
		if err != nil {
			return err
		}
		Running.enter(c)
		defer Running.leave(c)
		return c.run(ctx, started)
	})
}

func restarted(ctx context.Context, log *logrus.Entry, run func(context.Context) error) error {
	delay := restarts
	for {
		began := time.Now()
		err := run(ctx)
		if !errors.Is(err, ErrStoreWentBack) {
			return err
		}
		if time.Since(began) >= runsWell {
			delay = restarts
		}
		in := delay.Step()
		log.WithError(err).WithField("in", in.String()).Error("the collector begins again with what is there then")
		Running.Absent(report.Absence{Reason: "the store went back to an earlier state; the collector is about to begin again"})
		select {
		case <-time.After(in):
		case <-ctx.Done():
			return nil
		}
	}
}
