package reaptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// stopWithin is three times what the server promises.
	stopWithin = 30 * time.Second
	poll       = 20 * time.Millisecond
	// requestTimeout ends requests that wait for a webhook of which the server has not yet heard that it has gone.
	requestTimeout = 10 * time.Second
)

// Server is a running server. Its methods are safe for concurrent use; [Server.Reset] says what it expects of others.
type Server struct {
	// Kubeconfig is the path of a kubeconfig with the client certificate of an administrator, for programs
	// that want a file. It lies in the data directory and goes with it.
	Kubeconfig string

	config     *rest.Config
	process    *process
	dir        string
	throwAway  bool // whether dir goes with the server
	clients    *clients
	scheme     *runtime.Scheme
	told       told
	stopWithin time.Duration

	resetting   sync.Mutex // held by Reset and Keep; protects what follows
	kept        *kept      // nil as long as nothing could be listed
	keepErr     error      // why it was nil at the start
	resetWithin time.Duration

	stopOnce sync.Once
	stopped  error // what Stop returns
}

// Config returns the configuration of a client who may do everything. It is the caller's own, to change
// at will, and sets no limit on the client's rate. Impersonate in it makes another user's.
func (s *Server) Config() *rest.Config { return rest.CopyConfig(s.config) }

// Stop stops the server and throws its data away, unless [WithDir] keeps it. It returns an error if the
// server had ended before, did not end in time and was killed, or ended with an exit code other than 0.
// Further calls wait for the first and return the same.
func (s *Server) Stop() error {
	s.stopOnce.Do(func() {
		err := s.process.terminate(s.stopWithin)
		if err != nil {
			err = fmt.Errorf("%w%s", err, s.process.log.end())
		}
		if err = errors.Join(err, s.clear()); err != nil {
			s.stopped = fmt.Errorf("reaptest: %w", err)
		}
	})
	return s.stopped
}

// clear throws the data away.
func (s *Server) clear() error {
	if !s.throwAway {
		return nil
	}
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("removing the data directory: %w", err)
	}
	return nil
}

// awaitReady waits for the file that is there exactly while the server is ready.
func (s *Server) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		select {
		case <-s.process.ended:
			return fmt.Errorf("it ended with %s", s.process.cmd.ProcessState)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		ready, err := s.readReady()
		if err != nil {
			return err
		}
		if ready {
			return nil
		}
	}
}

func (s *Server) readReady() (bool, error) {
	raw, err := os.ReadFile(filepath.Join(s.dir, "ready.json"))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var ready struct {
		Kubeconfig string `json:"kubeconfig"`
		PID        int    `json:"pid"`
	}
	// A server that was killed left its file behind; the next one takes it away first of all.
	if json.Unmarshal(raw, &ready) != nil || ready.PID != s.process.cmd.Process.Pid {
		return false, nil
	}
	s.Kubeconfig = ready.Kubeconfig
	if s.config, err = clientcmd.BuildConfigFromFlags("", s.Kubeconfig); err != nil {
		return false, fmt.Errorf("reading the server's kubeconfig: %w", err)
	}
	s.config.QPS = -1 // the server limits; the default of 5 is for clusters that are shared
	return true, s.connect()
}

// connect makes the clients for what this package itself asks.
func (s *Server) connect() error {
	config := s.Config()
	config.Timeout = requestTimeout
	config.WarningHandler = rest.NoWarnings{} // about what others have made
	var err error
	if s.clients, err = newClients(config); err != nil {
		return fmt.Errorf("making clients: %w", err)
	}
	return nil
}
