package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/pki"
)

const (
	// serviceRange is where Services get their addresses from; serviceIP is the
	// first, that of the API server's own Service.
	serviceRange = "10.43.0.0/16"
	serviceIP    = "10.43.0.1"
	// lookAfterEvery is how often certificates are checked while the server runs.
	lookAfterEvery = time.Hour
)

// access is how clients reach the server: where, and with which certificates.
type access struct {
	cfg        config.Server
	hosts      []string
	files      pki.Files
	rootCA     []byte
	url        string
	kubeconfig string
}

// listen takes the port.
func listen(address string, port int) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(address, fmt.Sprint(port)))
	if err != nil {
		return nil, fmt.Errorf("listening: %w: choose another address with --bind-address or another port with --https-listen-port (0 picks a free one)", err)
	}
	return l, nil
}

// ensureAccess makes or renews what clients need, for the address that the server
// listens on.
func (s *server) ensureAccess(addr net.Addr) (*access, error) {
	tcp := addr.(*net.TCPAddr)
	a := &access{
		cfg:        s.cfg,
		hosts:      append([]string{serviceIP}, s.cfg.TLSSANs...),
		kubeconfig: config.AdminKubeconfig(s.cfg.DataDir),
	}
	host := tcp.IP
	if host.IsUnspecified() {
		// The kubeconfig stays on this machine; others reach it under its addresses.
		host = net.IPv4(127, 0, 0, 1)
		a.hosts = append(a.hosts, interfaceAddresses()...)
	} else {
		a.hosts = append(a.hosts, host.String())
	}
	a.url = "https://" + net.JoinHostPort(host.String(), fmt.Sprint(tcp.Port))
	return a, a.ensure()
}

func (a *access) ensure() error {
	files, err := pki.Ensure(filepath.Join(a.cfg.DataDir, "pki"), pki.Options{Hosts: a.hosts})
	if err != nil {
		return err
	}
	a.files = files
	if a.rootCA, err = os.ReadFile(files.ServerCA); err != nil {
		return fmt.Errorf("reading the certificate authority: %w", err)
	}
	if err := pki.WriteKubeconfig(a.kubeconfig, 0o600, a.url, files); err != nil {
		return err
	}
	if a.cfg.WriteKubeconfig == "" {
		return nil
	}
	return pki.WriteKubeconfig(a.cfg.WriteKubeconfig, a.cfg.WriteKubeconfigMode, a.url, files)
}

// keep renews certificates that come near their end while the server runs, until
// ctx ends: a device may run for longer than a certificate lasts, or learn the
// right time only after its start. The API server notices new files by itself.
func (a *access) keep(ctx context.Context) {
	tick := time.NewTicker(lookAfterEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			renewed := *a
			if err := renewed.ensure(); err != nil {
				logrus.WithError(err).Error("cannot look after the certificates; trying again in an hour")
			}
		}
	}
}

// interfaceAddresses returns the addresses that other machines may know this one
// by.
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
