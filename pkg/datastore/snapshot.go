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
// consistentRevision in front.
func newGRPCServer() *grpc.Server {
	// The values are those of etcd's own server, which kine takes too.
	return grpc.NewServer(
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 2 * time.Hour, Timeout: 20 * time.Second}),
		grpc.MaxConcurrentStreams(math.MaxUint32),
		grpc.MaxRecvMsgSize(2<<20),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.UnaryInterceptor(consistentRevision),
	)
}

// consistentRevision: a read never carries a revision newer than its keys. The API
// server watches from the revision of a read, so a write that is in neither the keys nor
// a later revision would be in no informer: a created object would never show up, a
// deleted one would never go.
//
// kine v0.16.4 reads the keys and the revision in one statement, with two exceptions. It
// reads the revision after the keys if there are no keys, which is every read of an
// absent key: a get, a list or a watch by name. And it does so if the list goes on on
// another page.
//
// If there are no keys, they are read once more, and the answer carries the revision of
// the first read. Every write up to that revision was committed before the second read
// began, so the keys show it. They may show later writes too: watch events that repeat
// what a read has shown do no harm. Reading at the first revision would not do, because
// kine's latest revision can lag behind its table, and the keys of then would include
// some that have been deleted.
//
// The first of several pages is read once more, at the revision that it carries.
//
// A read at a revision given by the client is left alone: the API server goes on from
// the revision that it gave, not from the answer's.
func consistentRevision(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	r, ranges := req.(*etcdserverpb.RangeRequest)
	if !ranges || r.Revision != 0 || r.CountOnly {
		return handler(ctx, req)
	}
	before := int64(0) // a revision that was read before the keys at hand
	for tries := 1; ; tries++ {
		resp, err := handler(ctx, r)
		read, ok := resp.(*etcdserverpb.RangeResponse)
		switch {
		case err != nil || !ok || read.Header == nil || len(read.Kvs) > 0 && !read.More:
			return resp, err
		case len(read.Kvs) == 0 && before == 0:
			before = read.Header.Revision
			continue
		case len(read.Kvs) == 0:
			read.Header.Revision = before
			return read, nil
		}
		revision := read.Header.Revision
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
