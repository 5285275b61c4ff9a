package pki

import (
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// verdicts inspects dir, and fails the test if that changes dir.
func verdicts(t *testing.T, dir string, now time.Time) map[string]Verdict {
	t.Helper()
	before := snapshot(t, dir)
	all, err := Inspect(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	if names := changed(before, snapshot(t, dir)); names != nil {
		t.Errorf("changed: %v", names)
	}
	found := map[string]Verdict{}
	for _, c := range all {
		found[c.Name] = c.Verdict
	}
	if len(found) != 6 {
		t.Errorf("found %v", found)
	}
	return found
}

func TestInspectDescribesEachCertificate(t *testing.T) {
	dir := t.TempDir()
	f := mustEnsure(t, dir, at(aDay, "edge.example.com", "192.0.2.7"))
	all, err := Inspect(dir, aDay)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Verdict != OK {
			t.Errorf("%s is %s", c.Name, c.Verdict)
		}
		if c.Endless() != (c.Authority == "") {
			t.Errorf("%s ends at %v", c.Name, c.Expires)
		}
		if cert := loadCert(t, c.File); c.Subject != cert.Subject.String() || c.Serial != cert.SerialNumber.Text(16) {
			t.Errorf("%s is %s, number %s", c.Name, c.Subject, c.Serial)
		}
	}
	serving := all[3]
	if serving.File != f.ServingCert || serving.Authority != "server-ca" || serving.RemainingSeconds != int64(leafLifetime/time.Second) {
		t.Errorf("%+v", serving)
	}
	for _, name := range []string{"localhost", "edge.example.com", "192.0.2.7", "::1"} {
		if !slices.Contains(serving.SANs, name) {
			t.Errorf("%s is not among %v", name, serving.SANs)
		}
	}
}

// TestInspectJudgesByTheTime: Ensure renews exactly the leaves that are due or expired.
func TestInspectJudgesByTheTime(t *testing.T) {
	dir := t.TempDir()
	mustEnsure(t, dir, at(aDay))
	for after, want := range map[time.Duration]Verdict{
		0:                                        OK,
		leafLifetime - renewBefore - time.Minute: OK,
		leafLifetime - renewBefore + time.Minute: Due,
		leafLifetime - time.Minute:               Due,
		leafLifetime + time.Minute:               Expired,
	} {
		for name, got := range verdicts(t, dir, aDay.Add(after)) {
			if isLeaf := slices.Contains(LeafNames(), name); isLeaf && got != want || !isLeaf && got != OK {
				t.Errorf("after %v: %s is %s", after, name, got)
			}
		}
	}
	// A wrong clock at the start of a device changes no verdict.
	for name, got := range verdicts(t, dir, firstInstant) {
		if got != OK {
			t.Errorf("without a clock: %s is %s", name, got)
		}
	}
}

// TestInspectFindsOwnCANearItsEnd: leaves that cannot be renewed any more are due
// nevertheless.
func TestInspectFindsOwnCANearItsEnd(t *testing.T) {
	dir := t.TempDir()
	ownCA(t, filepath.Join(dir, "client-ca.pem"), aDay.AddDate(-1, 0, 0), aDay.Add(authorityNotice).Truncate(time.Second))
	mustEnsure(t, dir, at(aDay.Add(-time.Hour)))
	for when, want := range map[time.Time][2]Verdict{
		aDay.Add(-time.Hour):                       {OK, OK},
		aDay.Add(time.Hour):                        {Due, OK},
		aDay.Add(authorityNotice - renewBefore/2):  {Due, Due},
		aDay.Add(authorityNotice).Add(time.Second): {Expired, Expired},
	} {
		found := verdicts(t, dir, when)
		if got := [2]Verdict{found["client-ca"], found["admin"]}; got != want {
			t.Errorf("at %v: %v, want %v", when, got, want)
		}
	}
}

func TestInspectFindsMismatches(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	mustEnsure(t, dir, at(aDay))
	mustEnsure(t, other, at(aDay))
	mine, theirs := snapshot(t, dir), snapshot(t, other)
	for _, tc := range []struct {
		damage map[string]string
		name   string
		want   Verdict
	}{
		{map[string]string{"admin.key": mine["serving.key"]}, "admin", WrongKey},
		{map[string]string{"admin.key": "x"}, "admin", WrongKey},
		{map[string]string{"admin.key": theirs["admin.key"], "admin.crt": theirs["admin.crt"]}, "admin", WrongAuthority},
		{map[string]string{"server-ca.crt": theirs["server-ca.crt"]}, "server-ca", WrongAuthority},
		{map[string]string{"client-ca.pem": mine["client-ca.crt"] + mine["admin.key"]}, "client-ca", WrongKey},
	} {
		for file, data := range tc.damage {
			write(t, filepath.Join(dir, file), data)
		}
		for name, got := range verdicts(t, dir, aDay) {
			want := OK
			if name == tc.name {
				want = tc.want
			}
			if got != want {
				t.Errorf("%s with another %s: %s is %s, want %s", dir, tc.name, name, got, want)
			}
		}
		for file := range tc.damage {
			write(t, filepath.Join(dir, file), mine[file])
		}
	}
	// A CA's .crt may hold more than one CA.
	write(t, filepath.Join(dir, "server-ca.crt"), theirs["server-ca.crt"]+mine["server-ca.crt"])
	if got := verdicts(t, dir, aDay)["server-ca"]; got != OK {
		t.Errorf("two trusted: %s", got)
	}
}

func TestInspectNamesTheUnreadableFile(t *testing.T) {
	for _, name := range allFiles {
		if name == "service-account.key" {
			continue // no certificate
		}
		dir := t.TempDir()
		mustEnsure(t, dir, at(aDay))
		path := filepath.Join(dir, name)
		remove(t, path)
		_, err := Inspect(dir, aDay)
		wantError(t, err, path)
		if filepath.Ext(name) == ".key" {
			continue
		}
		write(t, path, "-----BEGIN CERTIFICATE-----\n")
		_, err = Inspect(dir, aDay)
		wantError(t, err, path, "holds no certificate")
	}
}
