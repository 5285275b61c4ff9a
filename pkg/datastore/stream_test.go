package datastore

import (
	"context"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// stream reads as the API server lists.
func stream(ctx context.Context, c *clientv3.Client, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	chunks, err := c.GetStream(ctx, key, opts...)
	if err != nil {
		return nil, err
	}
	return clientv3.GetStreamToGetResponse(chunks)
}

// TestStreamedPages: a page that is streamed is the page that is asked for, also where kine's pieces end.
func TestStreamedPages(t *testing.T) {
	c := open(t)
	const n = 45
	for i := range n {
		if _, err := create(t.Context(), c, fmt.Sprintf("/registry/paged/%03d", i)); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := stream(t.Context(), c, "/registry/paged/", clientv3.WithPrefix())
	if err != nil || len(whole.Kvs) != n || whole.More || whole.Count != n {
		t.Fatalf("all: %v, %v", whole, err)
	}
	for _, limit := range []int64{1, 9, 10, 11, 30, n - 1, n, n + 1} {
		page, err := stream(t.Context(), c, "/registry/paged/", clientv3.WithPrefix(), clientv3.WithLimit(limit))
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(page.Kvs)) != min(limit, n) || page.More != (limit < n) || page.Count != n || page.Header.Revision != whole.Header.Revision {
			t.Errorf("a page of %d: %d keys of %d, more: %v, at revision %d", limit, len(page.Kvs), page.Count, page.More, page.Header.Revision)
		}
	}
}
