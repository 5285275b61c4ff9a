package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/tests/clock"
	"github.com/reap-dev/reap/tests/databases"
	"github.com/reap-dev/reap/tests/size"
)

const (
	year         = 365 * 24 * time.Hour
	clockBehind  = "the clock is behind the last time that reap has seen"
	clockWasSet  = "the clock was set: checking the certificates"
	lastTimeFile = "last-time"
)

// ownClock is the clock of a server's processes.
type ownClock struct {
	t   *testing.T
	s   *server
	by  time.Duration // off the machine's
	now *clock.Clock  // of the running process
}

// ownClock gives the server's next processes a clock of their own, which is right at first.
func (s *server) ownClock(t *testing.T) *ownClock {
	t.Helper()
	if !clock.Supported() {
		t.Skip("the clock of a process can be set on amd64 alone")
	}
	c := &ownClock{t: t, s: s}
	s.exec = func(cmd *exec.Cmd) (err error) {
		c.now, err = clock.Start(cmd, c.by)
		return err
	}
	return c
}

// set sets the clock of the running process. It returns once the server has noticed, and how long its log was before.
func (c *ownClock) set(by time.Duration) (from int64) {
	c.t.Helper()
	from = int64(len(c.s.logFrom(0)))
	if err := c.now.Set(by); err != nil {
		c.t.Fatal(err)
	}
	c.by = by
	await(c.t, "the server to notice its clock", func(context.Context) (bool, any) {
		return strings.Contains(string(c.s.logFrom(from)), clockWasSet), ""
	})
	// Its certificates may be others now.
	await(c.t, "the server to know the administrator", func(ctx context.Context) (bool, any) {
		again, err := newClients(c.s.Kubeconfig)
		if err == nil {
			_, err = again.kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{Limit: 1})
		}
		if err != nil {
			return false, err
		}
		c.s.clients = again
		return true, nil
	})
	return from
}

// awaitRenewal waits until all leaves have been renewed since then, and the kubeconfig is written, which is last.
func (c *ownClock) awaitRenewal(from int64) {
	c.t.Helper()
	await(c.t, "the renewal", func(context.Context) (bool, any) {
		log := string(c.s.logFrom(from))
		return strings.Count(log, "certificate renewed") >= len(leafAuthorities), ""
	})
	c.s.awaitAdmin(c.t, c.s.Kubeconfig)
}

// mustShow fails unless a time is the clock's.
func (c *ownClock) mustShow(what string, at time.Time) {
	c.t.Helper()
	if off := time.Until(at) - c.by; off.Abs() > patience {
		c.t.Errorf("%s is of %s, with a clock that shows %s", what, at.UTC(), time.Now().Add(c.by).UTC())
	}
}

// mustGoOn does what users do, and looks at the times that they see.
func (c *ownClock) mustGoOn(ns string) {
	c.t.Helper()
	t, s := c.t, c.s
	s.mustDeleteByEveryPolicy(t)
	ring := s.ring(t, ns, fmt.Sprintf("ring-%d", c.by/time.Second), configMaps, configMaps)
	c.mustShow("a new object", ring[0].o.GetCreationTimestamp().Time)
	s.deleteAs(t, configMaps, ring[0].o, foreground)
	s.awaitGone(t, configMaps, ring[0].o)
	s.awaitGone(t, configMaps, ring[1].o)
	var broken []corev1.Event
	await(t, "the event of the ring", func(ctx context.Context) (bool, any) {
		broken = nil
		for _, r := range ring {
			events, err := s.events(ctx, r.o, cycleBroken)
			if err != nil {
				return false, err
			}
			broken = append(broken, events...)
		}
		return len(broken) > 0, ""
	})
	for _, e := range broken {
		c.mustShow("an event", e.FirstTimestamp.Time)
		c.mustShow("an event", e.LastTimestamp.Time)
	}
	s.foregroundBarrier(t, configMaps, ns)
	for _, path := range []string{"/livez", "/readyz"} {
		if out, err := s.get(t.Context(), path); err != nil {
			t.Errorf("%s with the clock off by %s: %v %s", path, c.by, err, out)
		}
	}
}

// unharmed are objects that no clock may harm: some with an owner, and a foreground deletion that waits.
type unharmed struct {
	ns   string
	hung hung
	uids int
}

func (s *server) unharmed(t *testing.T) unharmed {
	t.Helper()
	b := unharmed{ns: s.namespace(t, "clock")}
	s.createMany(t, 20, configMaps, b.ns, "dependent", owner(s.create(t, secrets, b.ns, "owner")))
	b.hung = s.hang(t, b.ns, "hung", "", 2)
	b.uids = s.count(t, configMaps, b.ns)
	return b
}

func (b unharmed) mustBeThere(t *testing.T, s *server) {
	t.Helper()
	s.mustWait(t, configMaps, b.hung.o)
	for _, d := range b.hung.held {
		s.mustExist(t, configMaps, d)
	}
	if n := s.count(t, configMaps, b.ns); n != b.uids {
		t.Errorf("%d of %d objects are there", n, b.uids)
	}
}

// TestServerStartsWithAClockYearsBehind: a device without a battery for its clock boots in 1970, or when its image was made, and
// its clock is set later. The server says so, starts, and ends cascades; it neither replaces the certificates nor forgets the
// last known time, and lets no deletion time out early.
func TestServerStartsWithAClockYearsBehind(t *testing.T) {
	t.Parallel()
	s := newServer(t.TempDir())
	c := s.ownClock(t)
	s.start(t)
	b := s.unharmed(t)
	certificates := s.certificates(t, 0)
	known, err := os.ReadFile(filepath.Join(s.dir, lastTimeFile))
	if err != nil {
		t.Fatal(err)
	}
	boots := []time.Time{time.Unix(20, 0), time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)}
	for _, boot := range boots[:size.Of(1, 1, 2)] {
		s.stop(t)
		from := int64(len(s.logFrom(0)))
		c.by = time.Until(boot)
		s.restart(t)
		if !strings.Contains(string(s.logFrom(from)), clockBehind) {
			t.Errorf("the log does not say that the clock is behind, at %s", boot)
		}
		c.mustGoOn(b.ns)
		b.mustBeThere(t, s)
		c.set(0)
		c.mustGoOn(b.ns)
		b.mustBeThere(t, s)
		for name, now := range s.certificates(t, 0) {
			if now.Serial != certificates[name].Serial {
				t.Errorf("%s was replaced with the clock of %s", name, boot)
			}
		}
		if now, err := os.ReadFile(filepath.Join(s.dir, lastTimeFile)); err != nil || string(now) < string(known) {
			t.Errorf("the last known time is %q (%v), and was %q", now, err, known)
		}
	}
	s.stop(t)
	from := int64(len(s.logFrom(0)))
	s.restart(t)
	if strings.Contains(string(s.logFrom(from)), clockBehind) {
		t.Error("a clock that is right is called behind")
	}
	b.mustBeThere(t, s)
	s.mustWork(t)
}

// TestFirstStartOfAllIsWithoutAClock: the certificates that are made in 1970 are valid when the clock is set, and are replaced by
// ordinary ones then.
func TestFirstStartOfAllIsWithoutAClock(t *testing.T) {
	t.Parallel()
	s := newServer(t.TempDir())
	c := s.ownClock(t)
	c.by = time.Until(time.Unix(20, 0))
	s.start(t)
	b := s.unharmed(t)
	c.mustGoOn(b.ns)
	first := s.clients
	c.awaitRenewal(c.set(0))
	if _, err := first.kube.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("somebody who has read the kubeconfig before: %v", err)
	}
	for name, now := range s.certificates(t, 0) {
		if leafAuthorities[name] != "" && time.Until(now.Expires) > year+time.Hour {
			t.Errorf("%s is valid until %s", name, now.Expires)
		}
	}
	c.mustGoOn(b.ns)
	b.mustBeThere(t, s)
}

// TestClockMayBeSetWhileTheServerRuns: two years forward, four years back, and right again. What has waited goes on
// waiting, what has an owner stays, cascades end, certificates that have expired by the new time are renewed, events have the
// time that the clock shows, and those of before stay.
func TestClockMayBeSetWhileTheServerRuns(t *testing.T) {
	t.Parallel()
	s := newServer(t.TempDir())
	c := s.ownClock(t)
	s.start(t)
	b := s.unharmed(t)
	first := s.certificates(t, 0)
	told, err := s.kube.CoreV1().Events(b.ns).Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "before"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: b.ns, Name: "hung"},
		Reason:         "Before",
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []time.Duration{2 * year, -2 * year, 0} {
		if from := c.set(by); by == 2*year {
			c.awaitRenewal(from)
		}
		c.mustGoOn(b.ns)
		b.mustBeThere(t, s)
		if now, err := s.kube.CoreV1().Events(b.ns).Get(t.Context(), told.Name, metav1.GetOptions{}); err != nil || now.UID != told.UID {
			t.Errorf("an event of before: %v", err)
		}
		for name, now := range s.certificates(t, 0) {
			renewed := now.Serial != first[name].Serial
			if leaf := leafAuthorities[name] != ""; leaf && !renewed || !leaf && renewed {
				t.Errorf("with the clock off by %s, %s is renewed: %v", by, name, renewed)
			}
		}
	}
	for _, d := range b.hung.held {
		s.release(t, configMaps, d)
	}
	s.awaitGone(t, configMaps, b.hung.o)
	// The time of two years ahead was the last known one.
	s.stop(t)
	from := int64(len(s.logFrom(0)))
	s.restart(t)
	if !strings.Contains(string(s.logFrom(from)), clockBehind) {
		t.Error("the log does not say that the clock is behind the last known time")
	}
	s.mustWork(t)
}

// TestLeaderMayHaveItsClockSet: of two servers on one datastore, one collects, whatever the clock of the leader shows.
func TestLeaderMayHaveItsClockSet(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs etcd")
	}
	_, endpoint := databases.Etcd(t)
	leader := newServer(t.TempDir(), "--datastore-endpoint", endpoint)
	c := leader.ownClock(t)
	leader.start(t)
	await(t, "the first server to lead", func(ctx context.Context) (bool, any) {
		leads, err := leader.collects(ctx)
		return leads, err
	})
	other := leader.beside(t, "--datastore-endpoint", endpoint)
	b := other.unharmed(t)
	jumps := []time.Duration{2 * year, -2 * year, 0}
	for _, by := range jumps[:size.Of(1, 1, 3)] {
		c.set(by)
		other.foregroundBarrier(t, configMaps, b.ns)
		b.mustBeThere(t, other)
		await(t, "one of two to collect", func(ctx context.Context) (bool, any) {
			first, err := leader.collects(ctx)
			second, otherErr := other.collects(ctx)
			return err == nil && otherErr == nil && first != second, fmt.Sprint(first, err, second, otherErr)
		})
	}
}
