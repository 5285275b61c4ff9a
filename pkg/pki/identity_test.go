package pki

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

func mustIdentity(t *testing.T, dir string) Identity {
	t.Helper()
	i, err := ReadIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestServersWithOneIdentityTrustEachOther(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	if i := mustIdentity(t, filepath.Join(dir, "none")); len(i) != 0 || i.Complete() {
		t.Errorf("without files: %v", i)
	}
	mustEnsure(t, dir, at(aDay))
	mustEnsure(t, other, at(aDay))
	old := mustIdentity(t, dir)
	if !old.Complete() || old.Differs(old) != nil {
		t.Errorf("%v differs from itself by %q", old, old.Differs(old))
	}
	all := []string{serverCA, clientCA, frontProxyCA, serviceAccounts}
	if got := old.Differs(mustIdentity(t, other)); !slices.Equal(got, all) {
		t.Errorf("two directories differ by %q", got)
	}
	if got := old.Differs(Identity{}); !slices.Equal(got, all) {
		t.Errorf("none at all differs by %q", got)
	}
	if err := Rotate(dir, aDay); err != nil {
		t.Fatal(err)
	}
	if got := mustIdentity(t, dir); !reflect.DeepEqual(got, old) {
		t.Errorf("new leaves have changed %v to %v", old, got)
	}

	// A new CA beside the old one. The old one's holders do not trust what it signs until they have the bundle, too.
	certFile, pairFile := filepath.Join(dir, "client-ca.crt"), filepath.Join(dir, "client-ca.pem")
	before, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	remove(t, certFile)
	remove(t, pairFile)
	if i := mustIdentity(t, dir); i.Complete() || !slices.Equal(i.Differs(old), []string{clientCA}) {
		t.Errorf("without a CA: %v", i)
	}
	mustEnsure(t, dir, at(aDay))
	alone := mustIdentity(t, dir)
	after, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	write(t, certFile, string(after)+string(before))
	both := mustIdentity(t, dir)
	trusting := Identity{}
	for name, trust := range old {
		trusting[name] = trust
	}
	trusting[clientCA] = Trust{Signs: old[clientCA].Signs, Trusts: both[clientCA].Trusts}
	for _, tc := range []struct {
		name string
		a, b Identity
		want []string
	}{
		{"a new CA and the old one", alone, old, []string{clientCA}},
		{"a server that has only the old one", both, old, []string{clientCA}},
		{"a server that still signs with the old one and trusts both", both, trusting, nil},
		{"a server that trusts both, and one that has only the old one", trusting, old, nil},
		{"a server that has dropped the old one", both, alone, nil},
		{"the old one still signs elsewhere", alone, trusting, []string{clientCA}},
	} {
		if got := tc.a.Differs(tc.b); !slices.Equal(got, tc.want) {
			t.Errorf("%s: differ by %q", tc.name, got)
		}
		if got := tc.b.Differs(tc.a); !slices.Equal(got, tc.want) {
			t.Errorf("%s, the other way round: differ by %q", tc.name, got)
		}
	}
}

func TestDamagedFilesHaveNoIdentity(t *testing.T) {
	for _, name := range []string{"server-ca.pem", "client-ca.crt", "service-account.key"} {
		dir := t.TempDir()
		mustEnsure(t, dir, at(aDay))
		write(t, filepath.Join(dir, name), "nonsense")
		if i, err := ReadIdentity(dir); err == nil {
			t.Errorf("%s: %v", name, i)
		}
	}
}
