package datastore

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/reap-dev/reap/pkg/datastore/dump"
)

var _ dump.Source = (*Store)(nil)

// Read implements dump.Source: it reads all of the store, whatever engine it is, while others use it.
func (s *Store) Read(ctx context.Context, begin func(dump.Head) error, each func(dump.Record) error) (err error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints, Context: ctx})
	if err != nil {
		return fmt.Errorf("reading the datastore: %w", err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return dump.Etcd{Client: c, Kine: s.kine}.Read(ctx, begin, each)
}
