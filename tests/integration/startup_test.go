package integration

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSIGTERMDuringStart asks one process after the other to end, each at a later point of its start: it does so in order, and leaves
// nothing that is in the way of the next.
func TestSIGTERMDuringStart(t *testing.T) {
	t.Parallel()
	made := func(name string) func(*server, context.Context) error {
		return func(s *server, _ context.Context) error {
			_, err := os.Stat(filepath.Join(s.dir, name))
			return err
		}
	}
	s := newServer(t.TempDir())
	watchLog(t, s)
	t.Cleanup(s.kill)
	logged := 0
	for _, point := range []struct {
		name    string
		reached func(*server, context.Context) error
	}{
		{"directory locked", made("lock")},
		{"database made", made(storeFolder())},
		{"certificates made", made("pki")},
		{"API server starts", made("admin.kubeconfig")},
		{"API server is serving", (*server).serves},
	} {
		if err := s.begin(); err != nil {
			t.Fatal(err)
		}
		await(t, point.name, func(ctx context.Context) (bool, any) {
			// The process before may have got as far before it ended.
			if !strings.Contains(string(s.logFrom(int64(logged))), "reap is starting") {
				return false, "nothing in the log"
			}
			err := point.reached(s, ctx)
			return err == nil, err
		})
		s.stop(t)
		logged = len(s.logFrom(0))
	}
	s.restart(t)
	s.mustWork(t)
	s.stop(t)
}

// serves returns nil if the API server answers, whether or not the collector runs already.
func (s *server) serves(ctx context.Context) error {
	c, err := newClients(filepath.Join(s.dir, "admin.kubeconfig"))
	if err != nil {
		return err
	}
	_, err = c.get(ctx, "/readyz")
	return err
}
