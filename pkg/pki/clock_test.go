package pki

import (
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// The device's clock is wrong at each start, and set later.
func TestWrongClockReplacesNoLeaf(t *testing.T) {
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

// Leaves made without a clock are valid whenever the clock is set; then they are
// replaced by ordinary ones.
func TestFirstStartWithoutClockMakesLeavesThatLast(t *testing.T) {
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

// A clock in the future renews the leaves, since it may be right; when it goes back,
// nothing changes. The years beyond the range of X.509 and of Go's formatter work too.
func TestFutureClockRenewsLeavesOnce(t *testing.T) {
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

// A device boots at its image's date and gets a new host name. The new leaf must be
// valid when the clock is right again.
func TestLeafMadeAfterTheClockFellBackLasts(t *testing.T) {
	dir := t.TempDir()
	imageDate := aDay.AddDate(0, -6, 0)
	mustEnsure(t, dir, at(aDay.AddDate(2, 0, 0)))
	f := mustEnsure(t, dir, at(imageDate, "new.example"))
	verifyAll(t, f, imageDate, "new.example")
	verifyAll(t, f, aDay.AddDate(2, 0, 0), "new.example")
}

// Leaves expire with a CA that the user brought. This causes no write at each start,
// and no error.
func TestLeavesExpireWithTheUsersCA(t *testing.T) {
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
