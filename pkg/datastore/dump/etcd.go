package dump

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrCompacted is the error of a read that took so long that its revision was compacted. Another read may succeed.
var ErrCompacted = errors.New("the datastore was compacted while it was read")

// The keys of the API server, of reap and of kine all begin with a slash.
const (
	first = "/"
	end   = "0" // the byte after the slash
)

const (
	// pageBytes is how large a page should be. The next page's number of keys follows from the last page's size, so that
	// the memory that a read takes depends on the size of the largest objects and not on how many there are.
	pageBytes = 1 << 20
	// firstPage and maxPage are numbers of keys.
	firstPage = 100
	maxPage   = 2000
)

// Etcd is a store that is read through the etcd API, page by page at one revision.
type Etcd struct {
	Client *clientv3.Client
	// Kine is true if kine is known to answer. It has no leases: it takes a lease's number for its seconds.
	Kine bool
	// Revision is the one to read; 0 is the latest.
	Revision int64
}

var _ Source = Etcd{}

// Read implements Source.
func (e Etcd) Read(ctx context.Context, begin func(Head) error, each func(Record) error) error {
	page, err := e.page(ctx, first, e.Revision, firstPage)
	if err != nil {
		return err
	}
	head := Head{Revision: page.Header.Revision, Keys: page.Count}
	if e.Revision > 0 {
		head.Revision = e.Revision // the header has the latest
	}
	if err := begin(head); err != nil {
		return err
	}
	l := leases{of: e, ttl: map[int64]time.Duration{}}
	for read := int64(0); ; {
		read += int64(len(page.Kvs))
		for _, kv := range page.Kvs {
			r, err := l.record(ctx, kv)
			if err != nil {
				return err
			}
			if err := each(r); err != nil {
				return err
			}
		}
		switch {
		case page.More && len(page.Kvs) > 0:
		case read != head.Keys: // kine cuts a page short if its database fails in the middle of it
			return fmt.Errorf("reading the datastore: it counts %d keys and has shown %d", head.Keys, read)
		default:
			return nil
		}
		next := string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
		if page, err = e.page(ctx, next, head.Revision, keysFor(page.Kvs)); err != nil {
			return err
		}
	}
}

func (e Etcd) page(ctx context.Context, from string, revision int64, keys int64) (*clientv3.GetResponse, error) {
	page, err := e.Client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithRev(revision), clientv3.WithLimit(keys))
	if errors.Is(err, rpctypes.ErrCompacted) {
		return nil, ErrCompacted
	}
	if err != nil {
		return nil, fmt.Errorf("reading the datastore: %w", err)
	}
	return page, nil
}

// keysFor returns how many keys to ask for after a page.
func keysFor(page []*mvccpb.KeyValue) int64 {
	size := 0
	for _, kv := range page {
		size += len(kv.Key) + len(kv.Value)
	}
	return int64(max(1, min(maxPage, 2*len(page), len(page)*pageBytes/max(size, 1))))
}

// leases finds out when keys go by themselves.
type leases struct {
	of  Etcd
	ttl map[int64]time.Duration // by lease
}

func (l leases) record(ctx context.Context, kv *mvccpb.KeyValue) (Record, error) {
	r := Record{
		Key: kv.Key, Value: kv.Value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version,
	}
	if kv.Lease == 0 {
		return r, nil
	}
	ttl, known := l.ttl[kv.Lease]
	if !known {
		var err error
		if ttl, err = l.ask(ctx, kv.Lease); err != nil {
			return r, err
		}
		l.ttl[kv.Lease] = ttl
	}
	r.TTL = ttl
	return r, nil
}

// ask returns how much of a lease is left, or all of it where the store does not say. A kine that is not known to be one
// answers any question about a lease with an error that has no code.
func (l leases) ask(ctx context.Context, lease int64) (time.Duration, error) {
	all := time.Duration(lease) * time.Second
	if l.of.Kine {
		return all, nil
	}
	answer, err := l.of.Client.TimeToLive(ctx, clientv3.LeaseID(lease))
	var known rpctypes.EtcdError
	switch {
	case err != nil && status.Code(err) == codes.Unknown && !errors.As(err, &known) && ctx.Err() == nil:
		return all, nil
	case err != nil:
		return 0, fmt.Errorf("reading a lease of the datastore: %w", err)
	}
	return time.Duration(max(1, answer.TTL)) * time.Second, nil // one that has just run out is about to take its keys
}
