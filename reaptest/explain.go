package reaptest

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// askWithin bounds one run of a command.
const askWithin = 30 * time.Second

// Explain makes the test, if it fails, end with what `reap why` says about objects that are still being deleted, ten at
// the most, and with the end of the server's log since now. [Start], [Pool.Start] and [Server.Reset] include it; call it
// for a server of [Run] that is not reset. A log that [WithLog] passes on is not shown again.
func (s *Server) Explain(t testing.TB) {
	t.Helper()
	s.explain(t, s.process.log.written())
}

// explain shows the log from that place on.
func (s *Server) explain(t testing.TB, since int64) {
	if !s.told.begin(t.Name()) {
		return
	}
	t.Cleanup(func() {
		defer s.told.end(t.Name())
		if !t.Failed() {
			return
		}
		s.tell(t)
		if s.process.log.next == nil {
			t.Logf("reaptest: the server's log:\n%s", s.process.log.since(since))
		}
	})
}

// tell logs what is still being deleted, and why, unless the test has been told of it.
func (s *Server) tell(t testing.TB) {
	t.Helper()
	if text := s.terminating(t.Name()); text != "" {
		t.Logf("reaptest: %s", text)
	}
}

// terminating explains what is still being deleted, which it does once for each object in a test.
func (s *Server) terminating(test string) string {
	select {
	case <-s.process.ended:
		return "" // the log says it
	default:
	}
	// The test's own context may have ended.
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	now, err := s.clients.state(ctx)
	if now.served == nil {
		return fmt.Sprintf("what is still being deleted cannot be told: %v", err)
	}
	var ids []key
	for id, o := range now.objects {
		if o.DeletionTimestamp != nil && s.told.first(test, o.UID) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	slices.SortFunc(ids, func(a, b key) int { // those that have waited longest first
		x, y := now.objects[a], now.objects[b]
		if c := x.DeletionTimestamp.Compare(y.DeletionTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.String(), b.String())
	})
	more := ""
	if n := len(ids) - shown; n > 0 {
		ids, more = ids[:shown], fmt.Sprintf("\nand %d more are being deleted", n)
	}
	text := "still being deleted, and why:"
	for _, id := range ids {
		text += "\n" + s.why(ctx, id)
	}
	return text + more
}

// why returns what `reap why` says about an object.
func (s *Server) why(ctx context.Context, id key) string {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	args := []string{"why", "--kubeconfig", s.Kubeconfig, id.resource.String() + "/" + id.name}
	if id.namespace != "" {
		args = append(args, "--namespace", id.namespace)
	}
	out, err := exec.CommandContext(ctx, s.process.cmd.Path, args...).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("reap why %s failed: %v\n%s", id, err, out)
	}
	return string(out)
}

// told is which tests have been told of what.
type told struct {
	mu    sync.Mutex // protects what follows
	tests map[string]map[types.UID]bool
}

// begin reports whether the test has to be told: neither it nor one that it is part of is going to be.
func (d *told) begin(test string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of(test) != nil {
		return false
	}
	if d.tests == nil {
		d.tests = map[string]map[types.UID]bool{}
	}
	d.tests[test] = map[types.UID]bool{}
	return true
}

func (d *told) end(test string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tests, test)
}

// first reports whether the test has not been told of the object yet.
func (d *told) first(test string, uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	objects := d.of(test)
	if objects[uid] {
		return false
	}
	if objects != nil {
		objects[uid] = true
	}
	return true
}

// of returns what the test or one that it is part of has been told of.
func (d *told) of(test string) map[types.UID]bool {
	for {
		if objects := d.tests[test]; objects != nil {
			return objects
		}
		cut := strings.LastIndexByte(test, '/')
		if cut < 0 {
			return nil
		}
		test = test[:cut]
	}
}
