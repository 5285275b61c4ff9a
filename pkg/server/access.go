package server

import (
	"fmt"
	"net"
	"os"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/controllers"
	"github.com/reap-dev/reap/pkg/pki"
)

const (
	// serviceRange is the CIDR from which Services get their addresses. serviceIP is the
	// first address, which belongs to the API server's own Service.
	serviceRange = "10.43.0.0/16"
	serviceIP    = "10.43.0.1"
)

// access holds how clients reach the server: the URL and the certificates.
type access struct {
	cfg        config.Server
	hosts      []string
	files      pki.Files
	rootCA     []byte
	url        string
	kubeconfig string
	// clock and seen belong to look, which is called by one goroutine at a time.
	clock *clock
	seen  seen
}

// ensureAccess makes or renews the certificates and kubeconfigs for the address that the
// server listens on. The caller holds the certificates' lock.
func (s *server) ensureAccess(addr net.Addr) (*access, error) {
	tcp := addr.(*net.TCPAddr)
	a := &access{
		cfg:        s.cfg,
		hosts:      append([]string{serviceIP}, s.cfg.TLSSANs...),
		kubeconfig: config.AdminKubeconfig(s.cfg.DataDir),
	}
	host := tcp.IP
	if host.IsUnspecified() {
		// The kubeconfig is for this machine; other machines use the interfaces' addresses.
		host = net.IPv4(127, 0, 0, 1)
		a.hosts = append(a.hosts, interfaceAddresses()...)
	} else {
		a.hosts = append(a.hosts, host.String())
	}
	a.url = "https://" + net.JoinHostPort(host.String(), fmt.Sprint(tcp.Port))
	var err error
	if a.files, err = a.look(); err != nil {
		return nil, err
	}
	if a.rootCA, err = os.ReadFile(a.files.ServerCA); err != nil {
		return nil, fmt.Errorf("reading the certificate authority: %w", err)
	}
	return a, nil
}

// keys are the files that controllers sign with.
func (a *access) keys() controllers.Keys {
	return controllers.Keys{
		ServiceAccountKey: a.files.ServiceAccountKey,
		ClientCA:          controllers.Authority{Cert: a.files.ClientCASigner, Key: a.files.ClientCAKey},
		ServerCA:          controllers.Authority{Cert: a.files.ServerCASigner, Key: a.files.ServerCAKey},
	}
}

// interfaceAddresses returns the addresses under which other machines may know this one.
func interfaceAddresses() []string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil // --tls-san can name them
	}
	var ips []string
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			ips = append(ips, n.IP.String())
		}
	}
	return ips
}
