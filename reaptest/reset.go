package reaptest

import (
	"context"
	"fmt"
	"testing"
	"time"
)

const (
	// resetWithin is how long [Server.Reset] tries: far longer than it takes.
	resetWithin = time.Minute
	// keepWithin bounds the lists of what is kept.
	keepWithin = time.Minute
)

// Reset makes the server hold exactly the objects that it held when it had started, or at the last call of
// [Server.Keep]. It deletes all others, of all kinds and in all namespaces, and takes their finalizers off; the test's
// output names the objects that had finalizers of others than Kubernetes. Objects that were changed get their former
// content back, except for their status. Those that were deleted are created again, with new UIDs. Reset returns when a
// fresh list shows no difference, and fails the test at once if there still is one after a minute, with what the server
// has answered. Events are not kept: all of them go.
//
// Webhooks, admission policies and aggregated APIs cannot keep it from that, whether they answer or not: those that were
// not there at the start go first. What the test itself has started must have ended before, above all its controllers,
// which would make their objects anew. No other test may use the server meanwhile: parallel tests need servers of their
// own, as a [Pool] has them. An Event about what has been deleted may still come after Reset has returned.
//
// Call Reset in a test or in its Cleanup. It includes [Server.Explain].
func (s *Server) Reset(t testing.TB) {
	t.Helper()
	s.Explain(t)
	if t.Failed() {
		s.tell(t) // later there is nothing left to tell of
	}
	// The test's own context has ended when its cleanups run.
	freed, err := s.reset(context.WithoutCancel(t.Context()))
	logFreed(t, freed)
	if err != nil {
		t.Fatalf("reaptest: resetting the server: %v", err)
	}
}

// Keep makes what the server holds now the state to which [Server.Reset] goes back: for example with the custom resource
// definitions that all tests need. Nobody may change anything meanwhile.
func (s *Server) Keep(ctx context.Context) error {
	if err := s.keep(ctx); err != nil {
		return fmt.Errorf("reaptest: listing what the server holds: %w", err)
	}
	return nil
}

func (s *Server) keep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keepWithin)
	defer cancel()
	s.resetting.Lock()
	defer s.resetting.Unlock()
	kept, err := s.clients.keep(ctx)
	if err != nil {
		return err
	}
	s.kept = kept
	return nil
}

// reset also returns the finalizers that it took off, by object.
func (s *Server) reset(ctx context.Context) (freed map[key]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.resetWithin)
	defer cancel()
	s.resetting.Lock()
	defer s.resetting.Unlock()
	if s.kept == nil {
		return nil, fmt.Errorf("what it held at the start could not be listed: %w", s.keepErr)
	}
	r := newResetting(s.clients, s.kept)
	for before := false; ; {
		clean := r.pass(ctx)
		if clean && (before || r.writes.Load() == 0) {
			return r.freed, nil
		}
		before = clean
		select {
		case <-time.After(poll):
		case <-s.process.ended:
			return r.freed, fmt.Errorf("the server ended by itself: %s%s", s.process.cmd.ProcessState, s.process.log.end())
		case <-ctx.Done():
			return r.freed, fmt.Errorf("after %s it is not as it was:%s", s.resetWithin, r.left())
		}
		// After a deletion only a second look can tell: a controller may just have been making something.
		if clean && r.unchanged(ctx, r.now) {
			return r.freed, nil
		}
	}
}

func logFreed(t testing.TB, freed map[key]string) {
	t.Helper()
	if len(freed) > 0 {
		t.Logf("reaptest: finalizers were taken off objects to reset the server:%s", lines(freed))
	}
}
