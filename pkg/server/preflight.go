package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/reap-dev/reap/pkg/apiserver"
	"github.com/reap-dev/reap/pkg/config"
	"github.com/reap-dev/reap/pkg/datastore"
)

// Preflight returns the error with which a server of this configuration would refuse to start, as far as it can be found while another
// server still runs on the data directory. It changes nothing. root is put before the data directory.
func Preflight(cfg config.Server, root string) error {
	if err := apiserver.CheckArgs(cfg.KubeAPIServerArgs, !cfg.SharedDatastore()); err != nil {
		return err
	}
	cfg.DataDir = filepath.Join(root, cfg.DataDir)
	info, err := os.Stat(cfg.DataDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the server makes it
	}
	if err == nil && !info.IsDir() {
		err = errors.New("it is no directory")
	}
	if err != nil {
		return fmt.Errorf("--data-dir: looking at %s: %w: choose another", cfg.DataDir, err)
	}
	if err := errors.Join(mustBeWritable(cfg.DataDir), CheckFormat(cfg.DataDir)); err != nil {
		return err
	}
	s := &server{cfg: cfg}
	if !s.embedded() {
		return nil
	}
	if err := errors.Join(checkRestored(cfg.DataDir), s.checkEngine()); err != nil {
		return err
	}
	return s.checkMarked()
}

// checkMarked returns an error if the marker knows a store whose files are gone.
func (s *server) checkMarked() error {
	held, err := datastore.HoldsSQLite(s.cfg.DataDir)
	if s.etcd() {
		held, err = datastore.HoldsEtcd(s.cfg.DataDir)
	}
	if err != nil || held || s.cfg.NewStore {
		return err
	}
	_, marked, err := readMarker(config.PKIDir(s.cfg.DataDir))
	if err != nil || !marked {
		return err
	}
	return s.vanished()
}

// PreflightPort returns an error if this machine has not the address of this configuration, or its port is not free. running is the data directory of a service that is
// stopped before the server starts, "" for none: its own port is free then.
func PreflightPort(cfg config.Server, running string) error {
	if running != "" {
		r, err := ReadReady(running)
		if err != nil || portOf(r.URL) == cfg.HTTPSListenPort {
			cfg.HTTPSListenPort = 0 // its own, or one that cannot be told while it is not ready: the address has to be there all the same
		}
	}
	l, err := listen(cfg.BindAddress, cfg.HTTPSListenPort)
	if err != nil {
		return err
	}
	return l.Close()
}

// portOf returns the port of a server's URL; -1 if it has none.
func portOf(address string) int {
	u, err := url.Parse(address)
	if err != nil {
		return -1
	}
	_, text, err := net.SplitHostPort(u.Host)
	if err != nil {
		return -1
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return port
}
