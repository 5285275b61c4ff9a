package reaptest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
)

// Pool lends servers to tests, each to one test at a time, and resets them in between: a test waits for a start only when
// it is the first, or when more tests run side by side than before. Its zero value is ready to use. Its methods are safe
// for concurrent use.
//
//	var servers reaptest.Pool
//
//	func TestMain(m *testing.M) {
//		code := m.Run()
//		if err := servers.Stop(); err != nil {
//			…
//		}
//		os.Exit(code)
//	}
//
//	func TestController(t *testing.T) {
//		t.Parallel()
//		server := servers.Start(t)
//		…
//	}
type Pool struct {
	// Options are those of each server. WithDir is not among them, since no two servers share a directory.
	Options []Option
	// Prepare, if there is one, gets each server once, before the first test: it creates what all tests need, such as
	// custom resource definitions, to which [Server.Reset] goes back.
	Prepare func(context.Context, *Server) error

	mu   sync.Mutex // protects what follows
	all  []*Server
	free []*Server
}

// Start lends a server to the test: it has what it had when it had started, and Prepare's. When the test and its
// subtests have ended, the server is reset, and lent to other tests. If it cannot be reset, which the test's output says,
// it is stopped. The test should leave the server running and should not call [Server.Keep].
func (p *Pool) Start(t testing.TB) *Server {
	t.Helper()
	s := p.take()
	if s == nil {
		var err error
		if s, err = p.start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { p.giveBack(t, s) })
	s.Explain(t)
	return s
}

// Stop stops all servers. No test may use one any more.
func (p *Pool) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, s := range p.all {
		errs = append(errs, s.Stop())
	}
	p.all, p.free = nil, nil
	return errors.Join(errs...)
}

func (p *Pool) take() *Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.free) - 1
	if last < 0 {
		return nil
	}
	s := p.free[last]
	p.free = p.free[:last]
	return s
}

func (p *Pool) start(ctx context.Context) (*Server, error) {
	s, err := Run(ctx, p.Options...)
	if err != nil {
		return nil, err
	}
	if p.Prepare != nil {
		if err = p.Prepare(ctx, s); err == nil {
			err = s.Keep(ctx)
		}
		if err != nil {
			return nil, errors.Join(err, s.Stop())
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, s)
	return s, nil
}

func (p *Pool) giveBack(t testing.TB, s *Server) {
	t.Helper()
	// The test's own context has ended.
	freed, err := s.reset(context.WithoutCancel(t.Context()))
	logFreed(t, freed)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.free = append(p.free, s)
		return
	}
	t.Logf("reaptest: the next test gets another server, since this one could not be reset: %v", err)
	p.all = slices.DeleteFunc(p.all, func(o *Server) bool { return o == s })
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}
