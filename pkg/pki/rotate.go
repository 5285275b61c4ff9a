package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// LeafNames returns the names that Rotate accepts, in the order in which leaves are made.
func LeafNames() []string {
	var names []string
	for _, l := range leaves("", nil, nil) {
		names = append(names, l.name)
	}
	return names
}

// Rotate replaces the named leaves in dir, or all leaves if none is named, whatever
// their state. New certificates keep the host names and addresses of the old ones. If
// a CA is missing, Rotate returns an error and replaces nothing. The caller holds Lock,
// and calls WriteKubeconfig or RenewKubeconfig afterwards, since a kubeconfig contains
// the administrator's certificate.
//
// Copies of an old certificate remain valid until it expires.
func Rotate(dir string, now time.Time, names ...string) error {
	if err := checkOwner(dir); err != nil {
		return err
	}
	authorities := map[string]authority{}
	var chosen []leaf
	for _, l := range leaves(dir, nil, nil) {
		if len(names) > 0 && !slices.Contains(names, l.name) {
			continue
		}
		old, err := readCerts(l.certFile)
		if err != nil {
			return fmt.Errorf("reading the names of the certificate to renew: %w: a start of the server replaces it", err)
		}
		l.dnsNames, l.ips = old[0].DNSNames, old[0].IPAddresses
		if authorities[l.authority], err = existingAuthority(dir, l.authority); err != nil {
			return err
		}
		chosen = append(chosen, l)
	}
	for _, l := range chosen {
		ca := authorities[l.authority]
		old, err := l.load(ca)
		if err != nil {
			return err
		}
		if err := l.replace(ca, old, now); err != nil {
			return err
		}
	}
	return nil
}

func existingAuthority(dir, name string) (authority, error) {
	file := filepath.Join(dir, name+".pem")
	if _, err := os.Stat(file); err != nil {
		return authority{}, fmt.Errorf("loading CA: %w: restore it from a backup, or start the server, which makes a CA if there has never been one", err)
	}
	return ensureAuthority(dir, name)
}

// checkOwner returns an error unless the caller owns dir. This includes root: the
// server could not read keys that belong to root.
func checkOwner(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("checking PKI directory: %w: start the server once", err)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to the user with the ID %d: run this as that user, because the server has to read the new files", dir, s.Uid)
	}
	return nil
}

// RenewKubeconfig writes the administrator's current certificate into a kubeconfig
// written by WriteKubeconfig, and keeps its server. It returns false if there is no
// such file.
func RenewKubeconfig(path string, mode os.FileMode, dir string) (bool, error) {
	old, err := clientcmd.LoadFromFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading kubeconfig %s: %w: remove it, and a start of the server writes a new one", path, err)
	}
	cluster := old.Clusters[clusterName]
	if cluster == nil {
		return false, fmt.Errorf("reading kubeconfig %s: it has no cluster %q: remove it, and a start of the server writes a new one", path, clusterName)
	}
	return true, WriteKubeconfig(path, mode, cluster.Server, filesIn(dir))
}
