package datastore

import (
	"context"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/k3s-io/kine/pkg/server"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// newGRPCServer returns the server that kine answers on.
func newGRPCServer(backend server.Backend) *grpc.Server {
	// The values are those of etcd's own server, which kine takes too.
	s := grpc.NewServer(
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 2 * time.Hour, Timeout: 20 * time.Second}),
		grpc.MaxConcurrentStreams(math.MaxUint32),
		grpc.MaxRecvMsgSize(2<<20),
		grpc.MaxSendMsgSize(math.MaxInt32),
	)
	e := etcdAPI{server.New(backend, socketScheme, notifyEvery, emulatedETCD)}
	etcdserverpb.RegisterKVServer(s, e)
	etcdserverpb.RegisterWatchServer(s, e)
	etcdserverpb.RegisterLeaseServer(s, e)
	etcdserverpb.RegisterClusterServer(s, e)
	etcdserverpb.RegisterMaintenanceServer(s, e)
	return s
}

// etcdAPI is kine's, but for streams.
type etcdAPI struct {
	*server.KVServerBridge
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

// Watch tells the backend which keys a watch is for: see keyRange.
func (e etcdAPI) Watch(stream etcdserverpb.Watch_WatchServer) error {
	return e.KVServerBridge.Watch(&watchStream{Watch_WatchServer: stream})
}

// watchStream's context is that of the watch whose creation was received last: kine asks for it before it receives the
// next request.
type watchStream struct {
	etcdserverpb.Watch_WatchServer
	last atomic.Pointer[keyRange]
}

func (w *watchStream) Recv() (*etcdserverpb.WatchRequest, error) {
	r, err := w.Watch_WatchServer.Recv()
	if create := r.GetCreateRequest(); create != nil {
		w.last.Store(&keyRange{key: string(create.Key), end: string(create.RangeEnd)})
	}
	return r, err
}

func (w *watchStream) Context() context.Context {
	ctx := w.Watch_WatchServer.Context()
	if keys := w.last.Load(); keys != nil {
		return context.WithValue(ctx, keyRangeKey{}, *keys)
	}
	return ctx
}

// keyRange is which keys a watch is for. kine's backends since v0.17 are not told: they read every change since the
// watch's first revision, with values, and the server picks those that are asked for. A watch on what changes seldom
// begins far back.
type keyRange struct{ key, end string }

type keyRangeKey struct{}

// watchedKeys returns the keys that the watch of ctx is for; empty for all. kine has another key in place of one without a
// slash.
func watchedKeys(ctx context.Context) (key, end string) {
	keys, _ := ctx.Value(keyRangeKey{}).(keyRange)
	if !strings.HasPrefix(keys.key, "/") {
		return "", ""
	}
	return keys.key, keys.end
}
