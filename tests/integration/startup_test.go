package integration

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// TestSIGTERMDuringStart asks a server to end at several points of its start: it does so in order, and
// nothing of it is in the way of the next.
func TestSIGTERMDuringStart(t *testing.T) {
	s := newServer(t.TempDir())
	for _, made := range []string{"lock", "db/state.db", "pki", "admin.kubeconfig"} {
		t.Run(made, func(t *testing.T) {
			if err := os.RemoveAll(s.dir); err != nil {
				t.Fatal(err)
			}
			watchLog(t, s)
			t.Cleanup(s.kill)
			if err := s.begin(); err != nil {
				t.Fatal(err)
			}
			await(t, made, func(context.Context) (bool, any) {
				_, err := os.Stat(filepath.Join(s.dir, made))
				return err == nil, err
			})
			if err := s.terminate(); err != nil {
				t.Fatal(err)
			}
		})
	}
	s.start(t)
	s.mustWork(t)
}
