package datastore

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/k3s-io/kine/pkg/server"
	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	"github.com/reap-dev/reap/pkg/datastore/watch"
)

// newGRPCServer returns the server that kine answers on.
func newGRPCServer(api etcdAPI, options ...grpc.ServerOption) *grpc.Server {
	// The values are those of etcd's own server, which kine takes too.
	s := grpc.NewServer(append(options,
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 2 * time.Hour, Timeout: 20 * time.Second}),
		grpc.MaxConcurrentStreams(math.MaxUint32),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxSendMsgSize(math.MaxInt32),
	)...)
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
	watches  *watch.Hub // nil for kine's own
	writable *writable  // of a database elsewhere; nil for SQLite
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
	answer, err := e.KVServerBridge.Txn(ctx, r)
	if len(r.Compare) > 0 {
		e.tellFailed(r.Compare[0].Key, err)
	}
	if e.writable != nil && err == nil && answer.Succeeded {
		e.writable.trust()
	}
	return answer, err
}

// Put is Txn's sibling, which the API server does not use.
func (e etcdAPI) Put(ctx context.Context, r *etcdserverpb.PutRequest) (*etcdserverpb.PutResponse, error) {
	answer, err := e.KVServerBridge.Put(ctx, r)
	e.tellFailed(r.Key, err)
	return answer, err
}

// tellFailed logs that a key could not be written. kine's own message has the value in it, and so what a Secret holds: the log
// leaves it out (IsWithValue).
func (e etcdAPI) tellFailed(key []byte, err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	log := logrus.WithError(err).WithField("key", string(key))
	if e.writable != nil {
		e.writable.doubt()
		if e.writable.why() != "" { // of which the log tells at growing intervals
			log.Debug("the datastore cannot write")
			return
		}
	}
	log.Warn("the datastore cannot write")
}

// IsWithValue reports whether a message of kine v0.17.5 holds the request that has failed, with the value that was to be written.
func IsWithValue(message string) bool {
	return strings.HasPrefix(message, "error in txn ") || strings.HasPrefix(message, "error in put ")
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
