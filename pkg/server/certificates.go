package server

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/pki"
)

const (
	// lookAfterEvery is how often certificates are checked while the server runs. The
	// interval is elapsed time; expiry is judged by the wall clock, which a device may
	// learn only after its start.
	lookAfterEvery = time.Hour
	// clockEvery is how often the clock is compared with elapsed time, and clockJumps from when on it counts as set.
	clockEvery, clockJumps = 5 * time.Second, time.Minute
	// remindEvery is how often the log repeats what people have to do.
	remindEvery = 24 * time.Hour
	// Kubernetes makes a certificate for the API server's calls to itself at each start. It
	// is valid from an hour before the start, and kept in memory, where nobody can renew it.
	inMemoryBefore, inMemoryAfter = time.Hour, 3 * 365 * 24 * time.Hour
)

var (
	expiry = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "reap", Name: "certificate_expiry_timestamp_seconds",
		Help: "End of each of the server's own certificates, in seconds since 1970: serving, admin, front-proxy, and their authorities. An authority that reap has made has no end: the year 9999.",
	}, []string{"certificate"})
	registerExpiry = sync.OnceFunc(func() { legacyregistry.MustRegister(expiry) })
)

// seen is the state of the certificates at the last look.
type seen struct {
	began    time.Time         // the first look, by the wall clock
	serials  map[string]string // by certificate
	reminded time.Time         // of what people have to do; zero for never
}

// keep renews certificates that are about to expire, until ctx is cancelled: at once,
// regularly, and whenever a file has changed or somebody has set the clock. A device may run for longer than a certificate
// is valid. The API server reloads new files by itself.
func (a *access) keep(ctx context.Context, changed <-chan struct{}) {
	tick := time.NewTicker(lookAfterEvery)
	defer tick.Stop()
	for {
		if err := a.lookLocked(ctx); err != nil && ctx.Err() == nil {
			logrus.WithError(err).Error("cannot renew the certificates; will retry in an hour")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-changed:
		}
	}
}

// watch signals each replaced certificate, and that the clock was set, until ctx is cancelled. Another process may replace
// them: `reap certificate rotate` does not know every kubeconfig that has to be updated.
func (a *access) watch(ctx context.Context, parts *sync.WaitGroup) <-chan struct{} {
	rung := make(bell, 1)
	for name, pair := range map[string][2]string{
		"reap-serving":     {a.files.ServingCert, a.files.ServingKey},
		"reap-admin":       {a.files.AdminCert, a.files.AdminKey},
		"reap-front-proxy": {a.files.FrontProxyCert, a.files.FrontProxyKey},
	} {
		content, err := dynamiccertificates.NewDynamicServingContentFromFiles(name, pair[0], pair[1])
		if err != nil {
			logrus.WithError(err).Warn("cannot watch a certificate; it is checked every hour")
			continue
		}
		content.AddListener(rung)
		parts.Go(func() { content.Run(ctx, 1) })
	}
	parts.Go(func() {
		tick := time.NewTicker(clockEvery)
		defer tick.Stop()
		rung.watchClock(ctx, time.Now, tick.C)
	})
	return rung
}

// watchClock rings when the clock was set, or the machine was suspended, between two ticks, until ctx is cancelled. By the
// new time the certificates may have expired, and clients could not even ask why.
func (b bell) watchClock(ctx context.Context, now func() time.Time, tick <-chan time.Time) {
	for last := now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		at := now()
		// The first difference is of the wall clock, the second is what has elapsed.
		if by := at.Round(0).Sub(last.Round(0)) - at.Sub(last); by.Abs() >= clockJumps {
			logrus.WithField("by", by.Round(time.Second).String()).Info("the clock was set: checking the certificates")
			b.Enqueue()
		}
		last = at
	}
}

// bell is a listener that remembers one event.
type bell chan struct{}

// Enqueue implements dynamiccertificates.Listener.
func (b bell) Enqueue() {
	select {
	case b <- struct{}{}:
	default:
	}
}

func (a *access) lookLocked(ctx context.Context) error {
	unlock, err := pki.Lock(ctx, a.cfg.DataDir)
	if err != nil {
		return err
	}
	defer unlock()
	_, err = a.look()
	return err
}

// look brings certificates and kubeconfigs up to date and reports on them. The caller holds
// the certificates' lock.
func (a *access) look() (pki.Files, error) {
	dir := config.PKIDir(a.cfg.DataDir)
	if a.seen.serials == nil {
		a.clock = openClock(a.cfg.DataDir, time.Now)
		a.seen.serials = map[string]string{}
		a.seen.began = time.Now().Round(0)
		// An error is expected before the first start and is not logged.
		if old, err := pki.Inspect(dir, time.Now()); err == nil {
			a.seen.replaced(old)
		}
	}
	files, err := pki.Ensure(dir, pki.Options{Hosts: a.hosts, Now: a.clock.now})
	if err != nil {
		return files, err
	}
	a.clock.remember()
	a.tell(dir)
	if err := pki.WriteKubeconfig(a.kubeconfig, 0o600, a.url, files); err != nil {
		return files, err
	}
	if a.cfg.WriteKubeconfig == "" {
		return files, nil
	}
	return files, pki.WriteKubeconfig(a.cfg.WriteKubeconfig, a.cfg.WriteKubeconfigMode, a.url, files)
}

// tell exports when the certificates expire, and logs renewals and warnings.
func (a *access) tell(dir string) {
	all, err := pki.Inspect(dir, time.Now())
	if err != nil {
		logrus.WithError(err).Warn("cannot check the certificates")
		return
	}
	registerExpiry()
	for _, c := range all {
		expiry.WithLabelValues(c.Name).Set(float64(c.Expires.Unix()))
	}
	for _, c := range a.seen.replaced(all) {
		logrus.WithFields(logrus.Fields{"certificate": c.Name, "until": c.Expires}).Info("certificate renewed")
	}
	a.remind(all)
}

// remind logs, once a day, what only people can do.
func (a *access) remind(all []pki.Certificate) {
	if !a.seen.reminded.IsZero() && time.Since(a.seen.reminded) < remindEvery {
		return
	}
	for _, c := range all {
		if c.Authority == "" && c.Verdict != pki.OK {
			a.seen.reminded = time.Now()
			logrus.WithFields(logrus.Fields{"certificate": c.Name, "verdict": c.Verdict, "until": c.Expires}).
				Warn("a certificate authority needs replacing by hand: see docs/certificates.md")
		}
	}
	// By the wall clock, whatever time has elapsed.
	if moved := time.Now().Round(0).Sub(a.seen.began); moved < -inMemoryBefore || moved > inMemoryAfter {
		a.seen.reminded = time.Now()
		logrus.WithField("started", a.seen.began).
			Warn("the API server does not trust its own certificate in memory at this time: restart reap")
	}
}

// replaced returns the certificates that have changed since the last look.
func (s *seen) replaced(all []pki.Certificate) []pki.Certificate {
	var others []pki.Certificate
	for _, c := range all {
		if before := s.serials[c.Name]; before != "" && before != c.Serial {
			others = append(others, c)
		}
		s.serials[c.Name] = c.Serial
	}
	return others
}
