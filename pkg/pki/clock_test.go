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

// A clock in the far future renews the leaves, for clients on the machine have the same clock; when it goes back, they are
// replaced by ordinary ones. The years beyond the range of X.509 and of Go's formatter work too.
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
		verifyAll(t, filesIn(dir), aDay) // which a client with a right clock needs meanwhile
		f := mustEnsure(t, dir, at(aDay))
		verifyAll(t, f, aDay)
		for _, leaf := range []string{f.ServingCert, f.AdminCert, f.FrontProxyCert} {
			if end := loadCert(t, leaf).NotAfter; end.After(aDay.Add(leafLifetime)) {
				t.Errorf("back from %v: %s ends %v", future, leaf, end)
			}
		}
		back := snapshot(t, dir)
		mustEnsure(t, dir, at(aDay))
		if names := changed(back, snapshot(t, dir)); names != nil {
			t.Errorf("back from %v, again: changed %v", future, names)
		}
	}
}

// TestLeafOfAClockThatWasAheadIsReplaced: earlier builds counted a year from a clock of 2099, and a user's own tools set
// the begin by it too.
func TestLeafOfAClockThatWasAheadIsReplaced(t *testing.T) {
	ahead := time.Date(2099, time.May, 6, 0, 0, 0, 0, time.UTC)
	for name, span := range map[string][2]time.Time{
		"a year of 2099":    {firstInstant, ahead.Add(leafLifetime)},
		"from 2099 on":      {ahead, ahead.Add(leafLifetime)},
		"from next year on": {aDay.AddDate(1, 0, 0), aDay.AddDate(2, 0, 0)},
	} {
		dir := t.TempDir()
		f := mustEnsure(t, dir, at(aDay))
		reissue(t, f.AdminCert, f.AdminKey, f.ClientCAKey, span[0], span[1])
		before := snapshot(t, dir)
		mustEnsure(t, dir, at(firstInstant)) // without a clock nothing can be said
		if names := changed(before, snapshot(t, dir)); names != nil {
			t.Errorf("%s, without a clock: changed %v", name, names)
		}
		if got := verdicts(t, dir, aDay)["admin"]; got == OK {
			t.Errorf("%s: %s", name, got)
		}
		mustEnsure(t, dir, at(aDay))
		if names := changed(before, snapshot(t, dir)); !slices.Equal(names, []string{"admin.crt", "admin.key"}) {
			t.Errorf("%s: changed %v", name, names)
		}
		cert := loadCert(t, f.AdminCert)
		if cert.NotBefore.After(aDay) || name != "from next year on" && cert.NotAfter.After(aDay.Add(leafLifetime)) {
			t.Errorf("%s: the new one is valid from %v to %v", name, cert.NotBefore, cert.NotAfter)
		}
		verifyAll(t, f, aDay)
	}
}

// TestAuthorityOfTheFutureIsNamed: leaves cannot be valid before it is, so that replacing them would change nothing.
func TestAuthorityOfTheFutureIsNamed(t *testing.T) {
	dir := t.TempDir()
	ownCA(t, filepath.Join(dir, "client-ca.pem"), aDay.AddDate(0, 1, 0), aDay.AddDate(10, 0, 0))
	mustEnsure(t, dir, at(aDay))
	if got := verdicts(t, dir, aDay); got["client-ca"] != NotYetValid || got["admin"] != NotYetValid || got["serving"] != OK {
		t.Errorf("got %v", got)
	}
	if got := verdicts(t, dir, aDay.AddDate(0, 1, 1)); got["client-ca"] != OK || got["admin"] != OK {
		t.Errorf("once its time has begun: %v", got)
	}
	before := snapshot(t, dir)
	mustEnsure(t, dir, at(aDay))
	if names := changed(before, snapshot(t, dir)); names != nil {
		t.Errorf("changed %v", names)
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
