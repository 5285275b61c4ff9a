package datastore

import (
	"context"
	"io"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
	"google.golang.org/grpc"
)

// services are the parts of the etcd API that a datastore in this process answers.
type services struct {
	kv          etcdserverpb.KVServer
	watch       etcdserverpb.WatchServer
	lease       etcdserverpb.LeaseServer
	cluster     etcdserverpb.ClusterServer
	maintenance etcdserverpb.MaintenanceServer
}

// client returns a client that calls the services, without a connection. Messages are not copied: the services must not
// use an answer again.
func (s services) client() *clientv3.Client {
	c := clientv3.NewCtxClient(context.Background())
	c.KV = clientv3.NewKVFromKVClient(kvClient{adapter.KvServerToKvClient(s.kv), s.kv}, c)
	c.Lease = clientv3.NewLeaseFromLeaseClient(adapter.LeaseServerToLeaseClient(s.lease), c, time.Second)
	c.Watcher = newWatcher(s.watch)
	c.Maintenance = clientv3.NewMaintenanceFromMaintenanceClient(adapter.MaintenanceServerToMaintenanceClient(s.maintenance), c)
	c.Cluster = clientv3.NewClusterFromClusterClient(adapter.ClusterServerToClusterClient(s.cluster), c)
	return c
}

// kvClient adds the streamed list, which etcd's adapter lacks.
type kvClient struct {
	etcdserverpb.KVClient
	server etcdserverpb.KVServer
}

// RangeStream sends a piece when the one before has been taken, so that a long list is never in memory as a whole.
func (k kvClient) RangeStream(ctx context.Context, r *etcdserverpb.RangeRequest, _ ...grpc.CallOption) (etcdserverpb.KV_RangeStreamClient, error) {
	s := &rangeStream{ctx: ctx, pieces: make(chan *etcdserverpb.RangeStreamResponse)}
	go func() {
		defer close(s.pieces)
		s.err = k.server.RangeStream(r, &rangeStreamServer{stream: s})
	}()
	return &rangeStreamClient{stream: s}, nil
}

// rangeStream is both ends of a stream.
type rangeStream struct {
	ctx    context.Context
	pieces chan *etcdserverpb.RangeStreamResponse
	err    error // read after pieces is closed
}

// rangeStreamServer is the end that sends. The methods that are not here are for metadata, which nobody uses.
type rangeStreamServer struct {
	grpc.ServerStream
	stream *rangeStream
}

func (s *rangeStreamServer) Context() context.Context { return s.stream.ctx }

// Send copies the list of a piece: the API server empties it as it goes, and etcd measures the piece once it is sent.
func (s *rangeStreamServer) Send(piece *etcdserverpb.RangeStreamResponse) error {
	r := piece.GetRangeResponse()
	sent := &etcdserverpb.RangeStreamResponse{RangeResponse: &etcdserverpb.RangeResponse{
		Header: r.GetHeader(), Kvs: slices.Clone(r.GetKvs()), More: r.GetMore(), Count: r.GetCount(),
	}}
	select {
	case s.stream.pieces <- sent:
		return nil
	case <-s.stream.ctx.Done():
		return s.stream.ctx.Err()
	}
}

// rangeStreamClient is the end that receives.
type rangeStreamClient struct {
	grpc.ClientStream
	stream *rangeStream
}

func (c *rangeStreamClient) Context() context.Context { return c.stream.ctx }

func (c *rangeStreamClient) Recv() (*etcdserverpb.RangeStreamResponse, error) {
	piece, ok := <-c.stream.pieces
	if ok {
		return piece, nil
	}
	if c.stream.err == nil {
		return nil, io.EOF
	}
	return nil, c.stream.err
}
