package datastore

import (
	"context"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// watchClient never waits until a request is taken. etcd's client takes no answers while it sends a request, and etcd's server takes no
// requests once enough answers wait to be taken. A connection holds both back for a while; etcd's adapter has no room for any, so that a
// client and a server in one process would wait for each other, for ever, when a few dozen watches begin or end at once.
type watchClient struct{ etcdserverpb.WatchClient }

// Watch begins a call, which ends with ctx.
func (w watchClient) Watch(ctx context.Context, o ...grpc.CallOption) (etcdserverpb.Watch_WatchClient, error) {
	stream, err := w.WatchClient.Watch(ctx, o...)
	if err != nil {
		return nil, err
	}
	s := &watchStream{Watch_WatchClient: stream, wake: make(chan struct{}, 1)}
	go s.deliver()
	return s, nil
}

// watchStream is the client's end of a call. Nobody calls CloseSend: etcd's client ends the context.
type watchStream struct {
	etcdserverpb.Watch_WatchClient
	wake chan struct{} // holds one element if waiting may be filled

	mu      sync.Mutex // guards what follows
	waiting []*etcdserverpb.WatchRequest
}

func (s *watchStream) Send(r *etcdserverpb.WatchRequest) error {
	if err := s.Context().Err(); err != nil {
		return err
	}
	s.mu.Lock()
	s.waiting = append(s.waiting, r)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// deliver sends what waits, until the call ends.
func (s *watchStream) deliver() {
	for {
		select {
		case <-s.Context().Done():
			return
		case <-s.wake:
		}
		s.mu.Lock()
		waiting := s.waiting
		s.waiting = nil
		s.mu.Unlock()
		for _, r := range waiting {
			if s.Watch_WatchClient.Send(r) != nil {
				return // the call has ended, which the client learns when it takes an answer
			}
		}
	}
}
