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

// LeafNames returns what Rotate takes, in the order of the making.
func LeafNames() []string {
	var names []string
	for _, l := range leaves("", nil, nil) {
		names = append(names, l.name)
	}
	return names
}

// Rotate makes these leaves in dir anew, whatever state they are in, for the names
// and addresses that they have; without names, all of them. Where dir has no CA yet
// it makes nothing. The caller holds Lock, and WriteKubeconfig or RenewKubeconfig
// follows, since a kubeconfig holds a copy of the administrator's.
//
// An old certificate is good until its own end, for whoever has a copy.
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
			return fmt.Errorf("reading the names of the certificate to renew: %w: a start of the server makes it anew", err)
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
		return authority{}, fmt.Errorf("loading CA: %w: restore it from a backup, or start the server, which makes one where there has been none", err)
	}
	return ensureAuthority(dir, name)
}

// checkOwner refuses to write for somebody else, root included: the server could not
// read keys that are root's.
func checkOwner(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("checking PKI directory: %w: start the server once", err)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to the user with the ID %d: run this as that user, whose server has to read what is written", dir, s.Uid)
	}
	return nil
}

// RenewKubeconfig puts the administrator's certificate as it is now into a
// kubeconfig that WriteKubeconfig has written, for the same server. It reports
// whether there is such a file.
func RenewKubeconfig(path string, mode os.FileMode, dir string) (bool, error) {
	old, err := clientcmd.LoadFromFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading kubeconfig %s: %w: remove it, and a start of the server writes it anew", path, err)
	}
	cluster := old.Clusters[clusterName]
	if cluster == nil {
		return false, fmt.Errorf("reading kubeconfig %s: it has no cluster %q: remove it, and a start of the server writes it anew", path, clusterName)
	}
	return true, WriteKubeconfig(path, mode, cluster.Server, filesIn(dir))
}
