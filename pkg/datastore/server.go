package datastore

import (
	"context"
	"math"
	"time"

	"github.com/k3s-io/kine/pkg/server"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	"github.com/reap-dev/reap/pkg/datastore/watch"
)

// newGRPCServer returns the server that kine answers on.
func newGRPCServer(api etcdAPI) *grpc.Server {
	// The values are those of etcd's own server, which kine takes too.
	s := grpc.NewServer(
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 2 * time.Hour, Timeout: 20 * time.Second}),
		grpc.MaxConcurrentStreams(math.MaxUint32),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxSendMsgSize(math.MaxInt32),
	)
	etcdserverpb.RegisterKVServer(s, api)
	etcdserverpb.RegisterWatchServer(s, api)
	etcdserverpb.RegisterLeaseServer(s, api)
	etcdserverpb.RegisterClusterServer(s, api)
	etcdserverpb.RegisterMaintenanceServer(s, api)
	return s
}

// maxRequest is how many bytes a request may have.
const maxRequest = 2 << 20

// etcdAPI is kine's, but for streams.
type etcdAPI struct {
	*server.KVServerBridge
	watches *watch.Hub // nil for kine's own
}

func newEtcdAPI(b server.Backend) etcdAPI {
	api := etcdAPI{KVServerBridge: server.New(b, socketScheme, notifyEvery, emulatedETCD)}
	if sqlite, ok := b.(*backend); ok {
		api.watches = sqlite.watches
	}
	return api
}

// Txn refuses what is too large, as etcd does. What comes through the socket has been refused before.
func (e etcdAPI) Txn(ctx context.Context, r *etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error) {
	if proto.Size(r) > maxRequest {
		return nil, rpctypes.ErrGRPCRequestTooLarge
	}
	return e.KVServerBridge.Txn(ctx, r)
}

// Watch serves watches.
func (e etcdAPI) Watch(stream etcdserverpb.Watch_WatchServer) error {
	if e.watches != nil {
		return e.watches.Serve(stream)
	}
	return e.KVServerBridge.Watch(&sharedStream{Watch_WatchServer: stream, get: e.Range})
}

// RangeStream answers a page in one piece. kine v0.17.5 gives a page that it streams the revision of a count that it
// makes afterwards, so that a watch from there misses what was written in between; and it sends one key too many, as
// the last page, if that key is alone in its piece.
func (e etcdAPI) RangeStream(r *etcdserverpb.RangeRequest, stream etcdserverpb.KV_RangeStreamServer) error {
	if r.Limit == 0 && !r.CountOnly {
		return e.KVServerBridge.RangeStream(r, stream)
	}
	page, err := e.Range(stream.Context(), r)
	if err != nil {
		return err
	}
	return stream.Send(&etcdserverpb.RangeStreamResponse{RangeResponse: page})
}
