package pki

import (
	"context"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	certutil "k8s.io/client-go/util/cert"
)

func TestRotate(t *testing.T) {
	dir := t.TempDir()
	f := mustEnsure(t, dir, at(aDay, "edge.example.com", "192.0.2.7"))
	before := snapshot(t, dir)
	later := aDay.Add(time.Hour)
	if err := Rotate(dir, later, "serving"); err != nil {
		t.Fatal(err)
	}
	one := snapshot(t, dir)
	if names := changed(before, one); !slices.Equal(names, []string{"serving.crt", "serving.key"}) {
		t.Errorf("serving alone: changed %v", names)
	}
	if end := loadCert(t, f.ServingCert).NotAfter; !end.Equal(later.Add(leafLifetime).Truncate(time.Second)) {
		t.Errorf("ends %v", end)
	}
	// The new certificate has the same names, so a server that starts with them changes nothing.
	mustEnsure(t, dir, at(later, "edge.example.com", "192.0.2.7"))
	if names := changed(one, snapshot(t, dir)); names != nil {
		t.Errorf("afterwards: changed %v", names)
	}
	if err := Rotate(dir, later); err != nil {
		t.Fatal(err)
	}
	if names := changed(one, snapshot(t, dir)); !slices.Equal(names, leafFiles) {
		t.Errorf("all: changed %v", names)
	}
	verifyAll(t, f, later, "edge.example.com", "192.0.2.7")
}

// The pair does not match, or another CA signed it.
func TestRotateReplacesADamagedPair(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	f := mustEnsure(t, dir, at(aDay))
	theirs := mustEnsure(t, other, at(aDay, "theirs.example"))
	write(t, f.AdminKey, "x")
	for from, to := range map[string]string{theirs.ServingCert: f.ServingCert, theirs.ServingKey: f.ServingKey} {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		write(t, to, string(data))
	}
	if err := Rotate(dir, aDay); err != nil {
		t.Fatal(err)
	}
	verifyAll(t, f, aDay, "theirs.example")
}

func TestRotateMakesNothingFromNothing(t *testing.T) {
	for _, gone := range []string{"serving.crt", "client-ca.pem"} {
		dir := t.TempDir()
		mustEnsure(t, dir, at(aDay))
		remove(t, filepath.Join(dir, gone))
		before := snapshot(t, dir)
		wantError(t, Rotate(dir, aDay), filepath.Join(dir, gone), "start")
		if names := changed(before, snapshot(t, dir)); names != nil {
			t.Errorf("without %s: changed %v", gone, names)
		}
	}
	wantError(t, Rotate(filepath.Join(t.TempDir(), "tls"), aDay), "start the server")
}

func TestRotateIsForTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	dir := t.TempDir()
	mustEnsure(t, dir, at(aDay))
	before := snapshot(t, dir)
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	wantError(t, Rotate(dir, aDay), dir, "65534")
	if names := changed(before, snapshot(t, dir)); names != nil {
		t.Errorf("changed %v", names)
	}
}

func TestRenewKubeconfig(t *testing.T) {
	dir := t.TempDir()
	f := mustEnsure(t, dir, at(aDay))
	path := filepath.Join(t.TempDir(), "admin.kubeconfig")
	if there, err := RenewKubeconfig(path, 0o600, dir); there || err != nil {
		t.Errorf("none: %v, %v", there, err)
	}
	if err := WriteKubeconfig(path, 0o600, server, f); err != nil {
		t.Fatal(err)
	}
	if err := Rotate(dir, aDay, "admin"); err != nil {
		t.Fatal(err)
	}
	if there, err := RenewKubeconfig(path, 0o600, dir); !there || err != nil {
		t.Errorf("%v, %v", there, err)
	}
	wantKubeconfig(t, path, 0o600, f)
	for _, bad := range []string{"{", "clusters: []"} {
		write(t, path, bad)
		_, err := RenewKubeconfig(path, 0o600, dir)
		wantError(t, err, path, "remove it")
	}
}

// TestLockKeepsWritersApart rotates and renews concurrently: every call finds matching
// pairs, and the files match afterwards.
func TestLockKeepsWritersApart(t *testing.T) {
	data := t.TempDir()
	dir := filepath.Join(data, "pki")
	mustEnsure(t, dir, at(aDay))
	var busy sync.Mutex
	var g errgroup.Group
	for i := range 8 {
		g.Go(func() error {
			for range 10 {
				unlock, err := Lock(t.Context(), data)
				if err != nil {
					return err
				}
				if !busy.TryLock() {
					return errors.New("two hold the lock")
				}
				if i%2 == 0 {
					err = Rotate(dir, aDay)
				} else {
					_, err = Ensure(dir, at(aDay))
				}
				busy.Unlock()
				unlock()
				unlock() // does no harm
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	verifyAll(t, filesIn(dir), aDay)
	for name, verdict := range verdicts(t, dir, aDay) {
		if verdict != OK {
			t.Errorf("%s is %s", name, verdict)
		}
	}
}

func TestLockEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	unlock, err := Lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no more patience"))
	_, err = Lock(ctx, dir)
	wantError(t, err, dir, "no more patience")
	unlock()
	again, err := Lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	again()
	_, err = Lock(t.Context(), filepath.Join(dir, "none"))
	wantError(t, err, filepath.Join(dir, "none"))
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// TestReplacingAnAuthority takes the steps of docs/certificates.md.
func TestReplacingAnAuthority(t *testing.T) {
	dir := t.TempDir()
	f := mustEnsure(t, dir, at(aDay))
	old := snapshot(t, dir)
	ownCA(t, filepath.Join(dir, "client-ca.pem"), aDay.AddDate(-1, 0, 0), aDay.AddDate(10, 0, 0))
	if got := verdicts(t, dir, aDay); got["client-ca"] != WrongAuthority || got["admin"] != WrongAuthority {
		t.Errorf("half way: %v", got)
	}
	own, _, err := inspectPair(filepath.Join(dir, "client-ca.pem"), filepath.Join(dir, "client-ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, f.ClientCA, string(encodeCert(own.Raw))+old["client-ca.crt"])
	remove(t, filepath.Join(dir, "front-proxy-ca.pem"))
	remove(t, filepath.Join(dir, "front-proxy-ca.crt"))
	mustEnsure(t, dir, at(aDay))
	for name, got := range verdicts(t, dir, aDay) {
		if got != OK {
			t.Errorf("%s is %s", name, got)
		}
	}
	if names := changed(old, snapshot(t, dir)); !slices.Equal(names, []string{
		"admin.crt", "admin.key", "client-ca.crt", "client-ca.pem", "front-proxy-ca.crt", "front-proxy-ca.pem", "front-proxy.crt", "front-proxy.key",
	}) {
		t.Errorf("changed %v", names)
	}
	before, err := certutil.ParseCertsPEM([]byte(old["admin.crt"]))
	if err != nil {
		t.Fatal(err)
	}
	for _, admin := range []*x509.Certificate{before[0], loadCert(t, f.AdminCert)} {
		_, err := admin.Verify(x509.VerifyOptions{
			Roots: loadPool(t, f.ClientCA), CurrentTime: aDay, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})
		if err != nil {
			t.Errorf("while both are trusted: %v", err)
		}
	}
}
