package datastore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/k3s-io/kine/pkg/server"
	"github.com/prometheus/client_golang/prometheus"
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

// watching is a backend that only says which keys its watches are for.
type watching struct {
	server.Backend
	keys chan keyRange
}

func (w watching) CurrentRevision(context.Context) (int64, error) { return 1, nil }

func (w watching) Watch(ctx context.Context, _ int64) server.WatchResult {
	key, end := watchedKeys(ctx)
	w.keys <- keyRange{key, end}
	events := make(chan server.EventBatch)
	go func() {
		<-ctx.Done()
		close(events)
	}()
	return server.WatchResult{CurrentRevision: 1, Eventc: events, Errorc: make(chan error)}
}

// TestWatchReadsItsKeysAlone: a watch that begins far back reads the changes of its keys alone, however many there are
// on its stream.
func TestWatchReadsItsKeysAlone(t *testing.T) {
	t.Run("told", func(t *testing.T) {
		backend := watching{keys: make(chan keyRange, 200)}
		sock, err := newSocket(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		listener, err := sock.listen()
		if err != nil {
			t.Fatal(err)
		}
		s := newGRPCServer(backend)
		go func() { _ = s.Serve(listener) }() // until it is stopped
		t.Cleanup(s.Stop)
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{sock.url()}, Context: t.Context()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() }) // its watches are still open
		var want, got []keyRange
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for i := range 50 {
			key := fmt.Sprintf("/registry/of-%02d/", i)
			c.Watch(ctx, key, clientv3.WithPrefix(), clientv3.WithRev(2))
			c.Watch(ctx, key+"one", clientv3.WithRev(2))
			want = append(want, keyRange{key, clientv3.GetPrefixRangeEnd(key)}, keyRange{key + "one", ""})
		}
		c.Watch(ctx, "", clientv3.WithPrefix())
		c.Watch(ctx, "compact_rev_key") // for which kine watches another key
		want = append(want, keyRange{}, keyRange{})
		for range want {
			select {
			case keys := <-backend.keys:
				got = append(got, keys)
			case <-ctx.Done():
				t.Fatalf("only %d watches have begun", len(got))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the watches are for %v, want %v", got, want)
		}
	})
	t.Run("read", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer stop()
		dir := t.TempDir()
		dsn, err := openSQLite(ctx, dir, "normal")
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Dir: dir, Metrics: prometheus.NewRegistry()}
		backend, err := newSQLite(ctx, &wg, driverConfig(o, dsn), newDisk(dir, 0, o.Metrics))
		if err != nil {
			t.Fatal(err)
		}
		if err := backend.Start(ctx); err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			if _, err := backend.Create(ctx, fmt.Sprintf("/registry/others/%d", i), nil, 0); err != nil {
				t.Fatal(err)
			}
		}
		for _, key := range []string{"/registry/mine/1", "/registry/mine/2"} {
			if _, err := backend.Create(ctx, key, nil, 0); err != nil {
				t.Fatal(err)
			}
		}
		for keys, want := range map[keyRange]int{{"/registry/mine/", "/registry/mine0"}: 2, {"/registry/mine/1", ""}: 1, {"/registry/none", ""}: 0} {
			watch := backend.Watch(context.WithValue(ctx, keyRangeKey{}, keys), 2)
			if first := <-watch.Eventc; len(first.Events) != want || first.CurrentRev < 102 {
				t.Errorf("a watch of %v begins with %d events at revision %d, want %d", keys, len(first.Events), first.CurrentRev, want)
			}
		}
	})
}
