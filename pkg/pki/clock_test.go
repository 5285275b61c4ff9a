package pki

import (
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestWrongClockDoesNotChurn starts a device whose clock is set late in each run.
func TestWrongClockDoesNotChurn(t *testing.T) {
	dir := t.TempDir()
	mustEnsure(t, dir, at(aDay))
	before := snapshot(t, dir)
	for _, now := range []time.Time{firstInstant, time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC), aDay.AddDate(0, -6, 0), time.Unix(-1<<40, 0)} {
		f := mustEnsure(t, dir, at(now))
		if names := changed(before, snapshot(t, dir)); names != nil {
			t.Errorf("clock at %v: changed %v", now, names)
		}
		verifyAll(t, f, aDay)
	}
}

// TestFirstStartWithoutClock makes leaves that are good whenever the clock is set
// at last, and ordinary ones once it is.
func TestFirstStartWithoutClock(t *testing.T) {
	dir := t.TempDir()
	f := mustEnsure(t, dir, at(firstInstant.Add(20*time.Second)))
	verifyAll(t, f, firstInstant.Add(20*time.Second))
	verifyAll(t, f, aDay.AddDate(20, 0, 0))
	before := snapshot(t, dir)
	mustEnsure(t, dir, at(firstInstant.Add(30*time.Second)))
	if names := changed(before, snapshot(t, dir)); names != nil {
		t.Errorf("second start without a clock: changed %v", names)
	}

	f = mustEnsure(t, dir, at(aDay))
	after := snapshot(t, dir)
	if names := changed(before, after); !slices.Equal(names, leafFiles) {
		t.Errorf("first start with a clock: changed %v", names)
	}
	if end := loadCert(t, f.AdminCert).NotAfter; end.After(aDay.Add(leafLifetime)) {
		t.Errorf("ends %v", end)
	}
	mustEnsure(t, dir, at(firstInstant.Add(20*time.Second)))
	if names := changed(after, snapshot(t, dir)); names != nil {
		t.Errorf("next start without a clock: changed %v", names)
	}
}

// TestFutureClock: one visit to the future renews the leaves, since it might be
// true, and coming back does not. The ends of X.509 and of Go's formatter are no ends here.
func TestFutureClock(t *testing.T) {
	for _, future := range []time.Time{aDay.AddDate(100, 0, 0), noEnd, time.Date(200000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		dir := t.TempDir()
		mustEnsure(t, dir, at(aDay))
		cas := snapshot(t, dir)
		mustEnsure(t, dir, at(future))
		before := snapshot(t, dir)
		if names := changed(cas, before); !slices.Equal(names, leafFiles) {
			t.Errorf("clock at %v: changed %v", future, names)
		}
		mustEnsure(t, dir, at(future))
		if names := changed(before, snapshot(t, dir)); names != nil {
			t.Errorf("clock at %v again: changed %v", future, names)
		}
		f := mustEnsure(t, dir, at(aDay))
		verifyAll(t, f, aDay)
		back := snapshot(t, dir)
		mustEnsure(t, dir, at(aDay))
		if names := changed(back, snapshot(t, dir)); names != nil {
			t.Errorf("back from %v, again: changed %v", future, names)
		}
	}
}

// TestClockFallsBack: a device that boots at its image's date gets a new name
// there. The new leaf must be good when the clock is right again.
func TestClockFallsBack(t *testing.T) {
	dir := t.TempDir()
	imageDate := aDay.AddDate(0, -6, 0)
	mustEnsure(t, dir, at(aDay.AddDate(2, 0, 0)))
	f := mustEnsure(t, dir, at(imageDate, "new.example"))
	verifyAll(t, f, imageDate, "new.example")
	verifyAll(t, f, aDay.AddDate(2, 0, 0), "new.example")
}

// TestOwnCANearItsEnd: leaves end with a CA that the user brought, without a
// write at each start, and nothing is refused for its dates.
func TestOwnCANearItsEnd(t *testing.T) {
	dir := t.TempDir()
	end := aDay.AddDate(0, 1, 0).Truncate(time.Second)
	ownCA(t, filepath.Join(dir, "client-ca.pem"), aDay.AddDate(-1, 0, 0), end)
	f := mustEnsure(t, dir, at(aDay))
	cert := loadCert(t, f.AdminCert)
	if !cert.NotAfter.Equal(end) || cert.NotBefore.Before(loadCert(t, f.ClientCA).NotBefore) {
		t.Errorf("from %v to %v, outside its CA's time", cert.NotBefore, cert.NotAfter)
	}
	verifyAll(t, f, aDay)
	before := snapshot(t, dir)
	for _, now := range []time.Time{aDay, aDay.AddDate(0, 2, 0), firstInstant} {
		mustEnsure(t, dir, at(now))
		if names := changed(before, snapshot(t, dir)); names != nil {
			t.Errorf("at %v: changed %v", now, names)
		}
	}
}

func TestRealClockIsPlausible(t *testing.T) {
	if time.Now().Before(earliestRightClock) {
		t.Skip("this machine's clock is wrong")
	}
	f := mustEnsure(t, t.TempDir(), Options{})
	if end := loadCert(t, f.ServingCert).NotAfter; time.Until(end) > leafLifetime {
		t.Errorf("ends %v", end)
	}
}
