package datastore

import (
	"context"
	"math"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// newGRPCServer returns the server that kine answers on: as kine would make it, with
// lists that are true to their revision.
func newGRPCServer() *grpc.Server {
	// The values are those of etcd's own server, which kine takes too.
	return grpc.NewServer(
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 2 * time.Hour, Timeout: 20 * time.Second}),
		grpc.MaxConcurrentStreams(math.MaxUint32),
		grpc.MaxRecvMsgSize(2<<20),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.UnaryInterceptor(trueToRevision),
	)
}

// trueToRevision makes the revision of a list that of its keys, or an older one. kine
// v0.16.4 reads the revision of a list that goes on on another page, and of an empty
// one, after the keys: what is written in between is neither in the list nor, since
// the API server watches from that revision, in any event. An object that is deleted
// then stays in every informer.
//
// The first of several pages is read once more, at the revision that the answer gives.
// An empty list is read once more as it is now, and answered with the revision from
// before: kine's idea of the latest one can lag behind the table, so that a list at
// that revision would show what has gone. An event that the list is ahead of does no
// harm.
func trueToRevision(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	r, ranges := req.(*etcdserverpb.RangeRequest)
	if !ranges || len(r.RangeEnd) == 0 || r.Revision != 0 || r.CountOnly {
		return handler(ctx, req)
	}
	before := int64(0) // a revision that was read before the list at hand
	for tries := 1; ; tries++ {
		resp, err := handler(ctx, r)
		list, ok := resp.(*etcdserverpb.RangeResponse)
		switch {
		case err != nil || !ok || list.Header == nil || len(list.Kvs) > 0 && !list.More:
			return resp, err
		case len(list.Kvs) == 0 && before == 0:
			before = list.Header.Revision
			continue
		case len(list.Kvs) == 0:
			list.Header.Revision = before
			return list, nil
		}
		revision := list.Header.Revision
		resp, err = handler(ctx, &etcdserverpb.RangeRequest{
			Key: r.Key, RangeEnd: r.RangeEnd, Limit: r.Limit, Revision: revision,
			SortOrder: r.SortOrder, SortTarget: r.SortTarget, Serializable: r.Serializable, KeysOnly: r.KeysOnly,
		})
		if status.Code(err) == codes.OutOfRange && tries < triesAtRevision {
			continue // all has gone in between, and kine does not know of that revision yet
		}
		if again, ok := resp.(*etcdserverpb.RangeResponse); err == nil && ok && again.Header != nil {
			again.Header.Revision = revision
		}
		return resp, err
	}
}

// triesAtRevision is how often a list is begun if its revision turns out not to be
// known yet.
const triesAtRevision = 5
