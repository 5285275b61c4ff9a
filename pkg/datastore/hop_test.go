package datastore

import (
	"context"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

// BenchmarkHop updates and reads keys with sixteen clients at once: by calls in the process, through gRPC over memory, as the
// API server would with a dialer of its own, and through gRPC over the socket. It reports the time and the processor time
// of one update with its read. docs/datastore.md has figures.
func BenchmarkHop(b *testing.B) {
	s, direct := openIn(b, b.TempDir(), 0)
	memory := bufconn.Listen(1 << 20)
	go func() { _ = s.engine.(*kine).grpc.Serve(memory) }() // ends with the server
	dial := func(endpoint string, how ...grpc.DialOption) *clientv3.Client {
		c, err := clientv3.New(clientv3.Config{
			Endpoints: []string{endpoint}, DialOptions: append(how, grpc.WithTransportCredentials(insecure.NewCredentials())),
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Close() })
		return c
	}
	for name, c := range map[string]*clientv3.Client{
		"in-process": direct,
		"memory": dial("http://memory", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return memory.DialContext(ctx)
		})),
		"socket": dial(s.Endpoints[0]),
	} {
		b.Run(name, func(b *testing.B) {
			value := strings.Repeat("a small object ", 64)
			g, ctx := errgroup.WithContext(b.Context())
			const clients = 16
			before := processorTime(b)
			for i := range clients {
				g.Go(func() error {
					key, revision := fmt.Sprintf("/registry/configmaps/%s/%d-%d", name, b.N, i), int64(0)
					for n := i; n < b.N; n += clients {
						answer, err := put(ctx, c, key, value, revision)
						if err != nil {
							return err
						}
						revision = answer.Header.Revision
						if _, err := c.Get(ctx, key); err != nil {
							return err
						}
					}
					return nil
				})
			}
			if err := g.Wait(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "processor-µs/op")
		})
	}
}

// processorTime returns how much the process has taken so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
