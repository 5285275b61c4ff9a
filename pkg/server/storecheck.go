package server

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/reap-dev/reap/pkg/datastore"
)

// checkAgainAfter is how long after a check that has found damage, or that failed, the store is read again: the damaged key may have been
// deleted and compacted away.
const checkAgainAfter = 10 * time.Minute

// storeCheck reads all of the store once after the start. Until it has found the store whole, the collector and the controllers that
// delete are held: a damaged index answers NotFound for an owner that is there.
type storeCheck struct {
	verify func(ctx context.Context, progress func(done, all int64)) (c datastore.Checked, known bool, err error)
	again  time.Duration
	// whole is closed when nothing is left to wait for.
	whole chan struct{}

	// mu protects what follows.
	mu        sync.Mutex
	began     time.Time // of the check under way
	done, all int64     // rows of it
	found     string    // what keeps the hold, after a check; "" before the first has ended
}

func newStoreCheck(store *datastore.Store) *storeCheck {
	return &storeCheck{verify: store.Verify, again: checkAgainAfter, whole: make(chan struct{}), began: time.Now()}
}

// register adds the check's series to a registry, which must not have them yet.
func (c *storeCheck) register(metrics prometheus.Registerer) {
	metrics.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "reap_datastore_checked_ratio",
			Help: "How much of the datastore has been checked since the start, from 0 to 1; the collector writes nothing before 1. Always 1 for a database elsewhere, which is not checked.",
		}, c.ratio),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "reap_datastore_damaged",
			Help: "1 if the last check of the datastore has found damage, or could not read it: the collector writes nothing.",
		}, func() float64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.found != "" {
				return 1
			}
			return 0
		}),
	)
}

// run checks the store until it is whole or ctx ends.
func (c *storeCheck) run(ctx context.Context) {
	log := logrus.WithField("component", "datastore")
	for ctx.Err() == nil {
		c.begin()
		checked, known, err := c.verify(ctx, c.progress)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.WithError(err).Error("cannot check the datastore; the collector and the controllers that delete are held until it has been checked")
			c.end("the datastore could not be checked: " + err.Error())
		case known && len(checked.Problems) > 0:
			log.WithFields(logrus.Fields{"problems": int64(len(checked.Problems)) + checked.Further, "first": few(checked.Problems)}).
				WithField("next", damageHelp).Error("the datastore is damaged: the collector and the controllers that delete are held")
			c.end(fmt.Sprintf("the datastore is damaged (%s); %s", checked.Problems[0], damageHelp))
		default:
			if known {
				log.WithFields(logrus.Fields{"rows": checked.Rows, "took": c.took().Round(time.Millisecond).String()}).Info("the datastore has been checked")
			}
			c.end("")
			close(c.whole)
			return
		}
		select {
		case <-time.After(c.again):
		case <-ctx.Done():
		}
	}
}

const damageHelp = "stop the server and run 'reap db check', which says all that is wrong; 'reap db compact' makes a broken index of an SQLite database anew, " +
	"and 'reap snapshot restore' brings back what cannot be read"

// few returns the first problems.
func few(problems []string) string {
	const shown = 5
	return strings.Join(problems[:min(len(problems), shown)], "; ")
}

func (c *storeCheck) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began, c.done, c.all = time.Now(), 0, 0
}

func (c *storeCheck) progress(done, all int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done, c.all = done, all
}

func (c *storeCheck) end(found string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found = found
}

func (c *storeCheck) took() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.began)
}

func (c *storeCheck) isWhole() bool {
	select {
	case <-c.whole:
		return true
	default:
		return false
	}
}

// ratio is how much has been checked.
func (c *storeCheck) ratio() float64 {
	if c.isWhole() {
		return 1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == 0 {
		return 0
	}
	return min(float64(c.done)/float64(c.all), 0.99)
}

// why says why the collector is held; "" if it is not.
func (c *storeCheck) why() string {
	if c.isWhole() {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.found != "":
		return c.found
	case c.done == 0 || c.all == 0:
		return "the datastore is being checked after the start"
	}
	left := time.Duration(float64(time.Since(c.began)) * float64(c.all-c.done) / float64(c.done))
	return fmt.Sprintf("the datastore is being checked after the start: %d %% done, about %s left", 100*c.done/c.all, max(left.Round(time.Second), time.Second))
}
