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
	// interval is elapsed time; whether they last is up to the wall clock, which a
	// device may learn only after its start.
	lookAfterEvery = time.Hour
	// remindEvery is how often the log says again what people have to do.
	remindEvery = 24 * time.Hour
	// Kubernetes makes a certificate for the API server's calls to itself at each start,
	// from an hour before it on, and keeps it in memory, out of anybody's reach.
	inMemoryBefore, inMemoryAfter = time.Hour, 3 * 365 * 24 * time.Hour
)

var (
	expiry = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "reap", Name: "certificate_expiry_timestamp_seconds",
		Help: "When each of the server's own certificates ends, in seconds since 1970, by certificate.",
	}, []string{"certificate"})
	registerExpiry = sync.OnceFunc(func() { legacyregistry.MustRegister(expiry) })
)

// seen is what the last look at the certificates has shown.
type seen struct {
	began    time.Time         // the first look, by the wall clock
	serials  map[string]string // by certificate
	reminded time.Time         // of what people have to do; zero for never
}

// keep renews certificates that come near their end while the server runs, at once,
// regularly and whenever one has changed, until ctx ends: a device may run for longer
// than a certificate lasts. The API server notices new files by itself.
func (a *access) keep(ctx context.Context, changed <-chan struct{}) {
	tick := time.NewTicker(lookAfterEvery)
	defer tick.Stop()
	for {
		if err := a.lookLocked(ctx); err != nil && ctx.Err() == nil {
			logrus.WithError(err).Error("cannot look after the certificates; trying again in an hour")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-changed:
		}
	}
}

// watch tells, until ctx ends, that a certificate has been replaced, be it by
// somebody else: `reap certificate rotate` cannot know every kubeconfig to be written.
func (a *access) watch(ctx context.Context, parts *sync.WaitGroup) <-chan struct{} {
	rung := make(bell, 1)
	for name, pair := range map[string][2]string{
		"reap-serving":     {a.files.ServingCert, a.files.ServingKey},
		"reap-admin":       {a.files.AdminCert, a.files.AdminKey},
		"reap-front-proxy": {a.files.FrontProxyCert, a.files.FrontProxyKey},
	} {
		content, err := dynamiccertificates.NewDynamicServingContentFromFiles(name, pair[0], pair[1])
		if err != nil {
			logrus.WithError(err).Warn("cannot watch a certificate; it is looked at every hour")
			continue
		}
		content.AddListener(rung)
		parts.Go(func() { content.Run(ctx, 1) })
	}
	return rung
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

// look makes certificates and kubeconfigs as they have to be, and tells about them.
// The caller holds the certificates' lock.
func (a *access) look() (pki.Files, error) {
	dir := config.PKIDir(a.cfg.DataDir)
	if a.seen.serials == nil {
		a.seen.serials = map[string]string{}
		a.seen.began = time.Now().Round(0)
		// Fails where there are none yet, which nobody has to be told.
		if old, err := pki.Inspect(dir, time.Now()); err == nil {
			a.seen.replaced(old)
		}
	}
	files, err := pki.Ensure(dir, pki.Options{Hosts: a.hosts})
	if err != nil {
		return files, err
	}
	a.tell(dir)
	if err := pki.WriteKubeconfig(a.kubeconfig, 0o600, a.url, files); err != nil {
		return files, err
	}
	if a.cfg.WriteKubeconfig == "" {
		return files, nil
	}
	return files, pki.WriteKubeconfig(a.cfg.WriteKubeconfig, a.cfg.WriteKubeconfigMode, a.url, files)
}

// tell shows the certificates' ends in the metrics, and in the log what is worth it.
func (a *access) tell(dir string) {
	all, err := pki.Inspect(dir, time.Now())
	if err != nil {
		logrus.WithError(err).Warn("cannot tell how the certificates are")
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

// remind says, once a day, what only people can do.
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
	// What the wall clock says now, however much time has passed.
	if moved := time.Now().Round(0).Sub(a.seen.began); moved < -inMemoryBefore || moved > inMemoryAfter {
		a.seen.reminded = time.Now()
		logrus.WithField("started", a.seen.began).
			Warn("the API server does not trust its own certificate in memory at this time: restart reap")
	}
}

// replaced returns those that are others than the last time.
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
