package datastore

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errAway is what clients are told of a database elsewhere that does not answer, or answers with an error of its own. Only the log has
// that error: the database's address, its user and its name are the operator's business.
var errAway = &trouble{kind: unavailable, err: errors.New("it does not answer, or has answered with an error: try again later; the server's log has the error")}

// awayText is errAway without its mark.
var awayText = strings.TrimPrefix(errAway.Error(), markUnavailable)

// lastError is the last error of a database elsewhere that clients were not shown.
type lastError struct{ p atomic.Pointer[error] }

// instead returns the last error in place of errAway.
func (l *lastError) instead(err error) error {
	if err == nil {
		return nil
	}
	if last := l.p.Load(); last != nil && strings.Contains(status.Convert(err).Message(), awayText) {
		return *last
	}
	return err
}

// neutral returns an error of a database elsewhere without its details, and logs them. What kine itself says is an etcd's answer, and
// what reap says names nothing.
func (l *lastError) neutral(ctx context.Context, method string, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return err
	}
	if s, ok := status.FromError(err); ok && s.Code() != codes.Unknown {
		return err
	}
	if !isWrite(method) { // of which tellFailed tells, with the key
		logrus.WithError(err).Warn("the datastore cannot read")
	}
	l.p.Store(&err)
	return errAway
}

func isWrite(method string) bool {
	return strings.HasSuffix(method, "/Txn") || strings.HasSuffix(method, "/Put")
}

// hide lets a gRPC server answer with neutral errors.
func (l *lastError) hide() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			answer, err := handle(ctx, request)
			return answer, l.neutral(ctx, info.FullMethod, err)
		}),
		grpc.StreamInterceptor(func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			return l.neutral(stream.Context(), info.FullMethod, handle(server, stream))
		}),
	}
}

// hideReason takes the database's error out of the end of a watch. kine puts it there as a text.
func hideReason(r *etcdserverpb.WatchResponse) {
	if r.Canceled && r.CancelReason != "" && !strings.Contains(r.CancelReason, "etcdserver: ") && r.CancelReason != context.Canceled.Error() {
		logrus.WithField("reason", r.CancelReason).Warn("the datastore has ended a watch")
		r.CancelReason = errAway.Error()
	}
}
