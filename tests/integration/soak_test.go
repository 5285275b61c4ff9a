package integration

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reap-dev/reap/tests/size"
)

// soakFor is the variable that says how long TestSoak goes on; scripts/soak sets it.
const soakFor = "REAP_TEST_SOAK"

// reading is what a server takes at one moment.
type reading struct {
	memory, goroutines, descriptors, files, oldest float64
}

// trend is something that must not grow: from the second quarter of the time to the last one by no more than a factor and an amount.
// The first quarter is for what is warming up.
type trend struct {
	name, unit string
	of         func(reading) float64
	level      func([]float64) float64 // what a quarter goes back to, up to, or up by
	factor     float64
	more       float64
}

// flat are the trends of a server that runs for so long. Its database is compacted every five minutes: in a shorter time the file
// grows, and can only be seen not to grow ever faster.
func flat(lasts time.Duration) []trend {
	files := trend{"growth of the files", "MiB", func(r reading) float64 { return r.files / (1 << 20) }, rise, 1.5, 16}
	if lasts >= compactedWithin {
		files.name, files.level = "files", slices.Max[[]float64]
	}
	return []trend{
		{"memory", "MiB", func(r reading) float64 { return r.memory / (1 << 20) }, slices.Min[[]float64], 1.25, 32}, // RssAnon
		{"goroutines", "", func(r reading) float64 { return r.goroutines }, slices.Min[[]float64], 1.1, 50},
		{"descriptors", "", func(r reading) float64 { return r.descriptors }, slices.Min[[]float64], 1.1, 20},
		files,
		{"queue age", "s", func(r reading) float64 { return r.oldest }, slices.Max[[]float64], 3, 10},
	}
}

// compactedWithin is a time in whose quarters the database is compacted.
const compactedWithin = 20 * time.Minute

func rise(values []float64) float64 { return slices.Max(values) - slices.Min(values) }

var residentLine = regexp.MustCompile(`(?m)^RssAnon:\s+(\d+) kB$`)

// TestSoak makes and deletes objects by every policy, rings, kinds and namespaces for a while. In every round exactly what was to go
// has gone; over the whole time the server takes no more memory, goroutines, descriptors, disk and waiting than it did early on.
func TestSoak(t *testing.T) {
	t.Parallel()
	lasts := size.Of(20*time.Second, 20*time.Second, 3*time.Minute)
	if asked := os.Getenv(soakFor); asked != "" {
		var err error
		if lasts, err = time.ParseDuration(asked); err != nil || lasts < 10*time.Second {
			t.Fatalf("%s is %q; give a duration of ten seconds at least, such as 2h", soakFor, asked)
		}
	}
	s := newServer(t.TempDir())
	s.env = append(s.env, "GOGC=") // its own choice, as at users'
	s.start(t)
	ns := s.namespace(t, "soak")
	solid := s.create(t, configMaps, ns, "solid")
	s.createMany(t, 50, secrets, ns, "kept", owner(solid))
	before := s.inventory(t)

	began := time.Now()
	readings, done := make(chan []reading), make(chan struct{})
	go func() {
		var all []reading
		ticker := time.NewTicker(lasts / 100)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				readings <- all
				return
			case <-ticker.C:
				// One that a busy server does not answer is left out.
				if r, err := s.take(t.Context()); err == nil {
					all = append(all, r)
				}
			}
		}
	}()
	rounds, objects, said := 0, 0, began
	func() {
		defer close(done)
		for ; time.Since(began) < lasts; rounds++ {
			objects += s.soak(t, ns, rounds)
			if now := time.Now(); now.Sub(said) >= max(10*time.Second, lasts/20) {
				said = now
				if r, err := s.take(t.Context()); err == nil {
					t.Logf("after %s of %s: %d rounds, %d objects; %s", now.Sub(began).Round(time.Second), lasts, rounds+1, objects, r)
				}
			}
		}
	}()
	all := <-readings
	await(t, "nothing to wait or fail any more", func(ctx context.Context) (bool, any) {
		st := s.status(t)
		return st.WaitingCount == 0 && st.FailingCount == 0, st
	})
	before.mustBe(t, s.inventory(t), nil)
	if slowness == 1 { // the race detector takes memory of its own, and lets the server answer seldom
		mustBeFlat(t, all, lasts)
	}
	size.Power(t, fmt.Sprintf("soak=%s rounds=%d objects=%d readings=%d", lasts, rounds, objects, len(all)))
}

// mustBeFlat fails the test if a trend grows.
func mustBeFlat(t *testing.T, all []reading, lasts time.Duration) {
	t.Helper()
	const fewest = 20
	if len(all) < fewest {
		t.Fatalf("the server answered %d times in %s: too seldom to tell a trend", len(all), lasts)
	}
	quarter := len(all) / 4
	for _, f := range flat(lasts) {
		early, late := f.level(each(all[quarter:2*quarter], f.of)), f.level(each(all[len(all)-quarter:], f.of))
		t.Logf("%s: %.1f %s early, %.1f %s late", f.name, early, f.unit, late, f.unit)
		if late > early*f.factor+f.more {
			t.Errorf("%s grows: from %.1f to %.1f %s", f.name, early, late, f.unit)
		}
	}
}

func each[T, V any](all []T, of func(T) V) (values []V) {
	for _, x := range all {
		values = append(values, of(x))
	}
	return values
}

// soak is one round. It returns how many objects it has made, all of which are gone at its end.
func (s *server) soak(t *testing.T, ns string, round int) int {
	t.Helper()
	const each = 20
	name := func(what string) string { return fmt.Sprintf("%s-%d", what, round) }
	block := true
	blocking := func(r metav1.OwnerReference) metav1.OwnerReference {
		r.BlockOwnerDeletion = &block
		return r
	}
	back, front, free := s.create(t, configMaps, ns, name("back")), s.create(t, configMaps, ns, name("front")), s.create(t, configMaps, ns, name("free"))
	middle := s.create(t, configMaps, ns, name("middle"), blocking(owner(front)))
	s.createMany(t, each, secrets, ns, name("behind"), owner(back))
	s.createMany(t, each, secrets, ns, name("below"), blocking(owner(middle)))
	s.createMany(t, each, secrets, ns, name("freed"), owner(free))
	one := s.create(t, configMaps, ns, name("ring-one"))
	one = s.setOwners(t, configMaps, one, blocking(owner(s.create(t, configMaps, ns, name("ring-two"), blocking(owner(one))))))
	made := 6 + 3*each
	s.delete(t, configMaps, back)
	s.deleteAs(t, configMaps, front, foreground)
	s.deleteAs(t, configMaps, free, orphan)
	s.deleteAs(t, configMaps, one, foreground) // and the collector two, so that each waits for the other
	s.awaitCount(t, 1, configMaps, ns)         // solid
	s.awaitCount(t, 50+each, secrets, ns)
	for i := range each {
		if err := s.kube.CoreV1().Secrets(ns).Delete(t.Context(), fmt.Sprintf("%s-%d", name("freed"), i), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	switch round % 5 {
	case 1:
		passing := s.namespace(t, "soak-passing")
		s.createMany(t, each, configMaps, passing, "test")
		if err := s.kube.CoreV1().Namespaces().Delete(t.Context(), passing, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		s.awaitNamespaceGone(t, passing)
		made += each + 1
	case 3:
		sponges, crd := s.define(t, "Namespaced", "sponges", "Sponge")
		o := s.create(t, sponges, ns, "owner")
		s.createMany(t, each, sponges, ns, "test", owner(o))
		s.createMany(t, each, configMaps, ns, name("of-a-sponge"), owner(o))
		s.undefine(t, crd)
		s.awaitCount(t, 1, configMaps, ns)
		made += 2*each + 2
	}
	return made
}

// take reads what the server takes now.
func (s *server) take(ctx context.Context) (r reading, err error) {
	pid := s.cmd.Process.Pid
	all, err := s.samples(ctx, "go_goroutines", "reap_gc_queue_oldest_seconds")
	if err != nil {
		return r, err
	}
	r.goroutines, _ = sum(all, "go_goroutines")
	for _, m := range all {
		if m.name == "reap_gc_queue_oldest_seconds" {
			r.oldest = max(r.oldest, m.value)
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return r, err
	}
	if m := residentLine.FindSubmatch(status); m == nil {
		return r, errors.New("the kernel does not say how much memory a process has")
	} else if _, err := fmt.Sscan(string(m[1]), &r.memory); err != nil {
		return r, err
	}
	r.memory *= 1 << 10
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return r, err
	}
	r.descriptors = float64(len(open))
	err = filepath.WalkDir(s.dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				r.files += float64(info.Size())
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // files come and go meanwhile
		}
		return err
	})
	return r, err
}

func (r reading) String() string {
	return fmt.Sprintf("%.1f MiB of memory, %.0f goroutines, %.0f descriptors, %.1f MiB of files, the oldest in a queue for %.1f s",
		r.memory/(1<<20), r.goroutines, r.descriptors, r.files/(1<<20), r.oldest)
}
