package datastore

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/k3s-io/kine/pkg/logstructured"
	"github.com/k3s-io/kine/pkg/server"
	"github.com/prometheus/client_golang/prometheus"
)

// interrupted is a log that can be followed from the third time on.
type interrupted struct {
	logstructured.Log
	followed atomic.Int32
	third    chan struct{} // closed when it is
}

func (i *interrupted) Watch(ctx context.Context) <-chan server.EventBatch {
	switch i.followed.Add(1) {
	case 1: // as for a reader that is too slow
		ended := make(chan server.EventBatch)
		close(ended)
		return ended
	case 2: // as if its revision cannot be read
		return nil
	case 3:
		defer close(i.third)
	}
	return i.Log.Watch(ctx)
}

// TestKeysExpireAfterAnInterruption: a watch that ends, or cannot begin, is begun again.
func TestKeysExpireAfterAnInterruption(t *testing.T) {
	dir := t.TempDir()
	dsn, err := openSQLite(t.Context(), dir, "normal")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	b, _, err := newSQLite(ctx, &running, driverConfig(Options{Metrics: prometheus.NewRegistry()}, dsn), newDisk(filepath.Join(dir, "db"), 0, prometheus.NewRegistry()))
	if err != nil {
		t.Fatal(err)
	}
	log := &interrupted{Log: b.log, third: make(chan struct{})}
	b.log = log
	if err := b.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.stop()
		cancel()
		running.Wait()
	})
	<-log.third
	const key = "/registry/events/after"
	if _, err := b.Create(ctx, key, []byte("event"), 1); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if _, kv, err := b.Get(ctx, key, 0, true); err != nil || kv != nil {
			return errors.Join(err, errors.New("the key is there"))
		}
		return nil
	})
}
