package pki

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// FrontProxyName is the common name of the aggregator's client certificate, the
// only one to give kube-apiserver as --requestheader-allowed-names.
const FrontProxyName = "system:front-proxy"

// Options configures Ensure.
type Options struct {
	// Hosts are the DNS names and IP addresses of the serving certificate, in addition
	// to the built-in ones: localhost, 127.0.0.1, ::1, the names of the kubernetes
	// Service and this machine's host name. The caller has to add the Service's IP.
	Hosts []string
	// Now is the clock; nil means time.Now. It determines only when leaves expire: CAs
	// do not depend on a clock.
	Now func() time.Time
}

// Files holds the absolute paths of the files that Ensure maintains.
type Files struct {
	ServerCA, ClientCA, FrontProxyCA string // CA certificates, without keys
	ServerCAKey, ClientCAKey         string // their keys, with their own certificates
	// ServerCASigner and ClientCASigner hold the certificate of the CA's key and no other certificate, whatever else
	// clients are to trust. Only Ensure sets them.
	ServerCASigner, ClientCASigner string
	ServingCert, ServingKey        string
	AdminCert, AdminKey            string // CN=reap-admin, O=system:masters
	FrontProxyCert, FrontProxyKey  string // CN=FrontProxyName
	// ServiceAccountKey is a private key. kube-apiserver takes it both as
	// --service-account-key-file and as --service-account-signing-key-file.
	ServiceAccountKey string
}

// Ensure makes the files that are missing in dir, renews leaves that expire soon or
// no longer match, and tightens permissions that are too loose. It does not change
// any other file.
//
// An error names a path and what to do about it. The next call continues from the
// state that a failed call has left.
func Ensure(dir string, o Options) (Files, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Files{}, fmt.Errorf("resolving PKI directory %s: %w: give an absolute path", dir, err)
	}
	dir = abs
	// First, because only these errors are the user's typing errors.
	dnsNames, ips, err := subjectAltNames(o.Hosts)
	if err != nil {
		return Files{}, err
	}
	if err := ensurePrivateDir(dir); err != nil {
		return Files{}, err
	}
	now := time.Now()
	if o.Now != nil {
		now = o.Now()
	}

	// The authorities come first: the leaves are checked against them.
	authorities := map[string]authority{}
	for _, name := range authorityNames {
		if authorities[name], err = ensureAuthority(dir, name); err != nil {
			return Files{}, err
		}
	}
	for _, l := range leaves(dir, dnsNames, ips) {
		if err := l.ensure(authorities[l.authority], now); err != nil {
			return Files{}, err
		}
	}
	f := filesIn(dir)
	if err := ensureServiceAccountKey(f.ServiceAccountKey); err != nil {
		return Files{}, err
	}
	f.ServerCASigner, f.ClientCASigner = authorities[serverCA].signerFile, authorities[clientCA].signerFile
	return f, nil
}

// filesIn returns the paths of the files in a directory.
func filesIn(dir string) Files {
	in := func(name string) string { return filepath.Join(dir, name) }
	return Files{
		ServerCA:          in(serverCA + ".crt"),
		ClientCA:          in(clientCA + ".crt"),
		FrontProxyCA:      in(frontProxyCA + ".crt"),
		ServerCAKey:       in(serverCA + ".pem"),
		ClientCAKey:       in(clientCA + ".pem"),
		ServingCert:       in("serving.crt"),
		ServingKey:        in("serving.key"),
		AdminCert:         in("admin.crt"),
		AdminKey:          in("admin.key"),
		FrontProxyCert:    in("front-proxy.crt"),
		FrontProxyKey:     in("front-proxy.key"),
		ServiceAccountKey: in("service-account.key"),
	}
}

// ensurePrivateDir creates dir, accessible to its owner alone.
func ensurePrivateDir(dir string) error {
	if err := makeDir(dir); err != nil {
		return fmt.Errorf("making PKI directory %s: %w: choose another data directory, or make its parent writable", dir, err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("checking PKI directory %s: %w: make it accessible to the user that runs reap", dir, err)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("making PKI directory %s private: %w: give it to the user that runs reap, mode 0700", dir, err)
	}
	return nil
}
