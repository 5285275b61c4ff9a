package apiserver

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reap-dev/reap/tests/bubble"
)

// pipes listens for connections without a network, on a bubble's clock.
type pipes struct {
	ended    sync.Once
	closed   chan struct{}
	accepted chan net.Conn
}

func newPipes() *pipes { return &pipes{closed: make(chan struct{}), accepted: make(chan net.Conn)} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.ended.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.accepted <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// stopping starts a server of HTTP/2 whose requests to /slow take slow, lets requests come, and returns how long it takes to stop.
func stopping(t *testing.T, handle func(http.Handler) http.Handler, slow time.Duration, paths ...string) time.Duration {
	t.Helper()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	listener := newPipes()
	s := &http.Server{Protocols: &protocols, Handler: handle(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			time.Sleep(slow)
		}
	}))}
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	client := &http.Client{Transport: &http.Transport{Protocols: &protocols, DialContext: listener.dial}}
	var clients sync.WaitGroup
	for _, path := range paths {
		clients.Go(func() {
			resp, err := client.Get("http://server" + path)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Error(err)
			}
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait() // the next uses the same connection
	}
	began := time.Now()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	took := time.Since(began)
	clients.Wait()
	if err := <-served; err != http.ErrServerClosed {
		t.Error(err)
	}
	time.Sleep(time.Minute) // nothing is left
	return took
}

func TestIdleConnectionsAreClosedSoonAfterTheListener(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		if took := stopping(t, func(h http.Handler) http.Handler { return h }, 0, "/"); took < time.Second {
			t.Fatalf("a server by itself stops after %s, so that this test shows nothing", took)
		}
	})
	for _, c := range []struct {
		name   string
		paths  []string
		slow   time.Duration
		at, by time.Duration // Shutdown looks ever more seldom, every half a second at last
	}{
		{"nobody is there", nil, 0, 0, farewellTime},
		{"a connection is idle", []string{"/"}, 0, farewellTime, 2 * farewellTime},
		{"a request is being answered", []string{"/", "/slow"}, 10 * time.Second, 10 * time.Second, 11 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				if took := stopping(t, new(farewell).to, c.slow, c.paths...); took < c.at || took > c.by {
					t.Errorf("the server stopped after %s, not between %s and %s", took, c.at, c.by)
				}
			})
		})
	}
}

// A handler returns before the end of its answer is sent.
func TestConnectionsAreKeptForAWhileAfterTheLastRequest(t *testing.T) {
	for _, c := range []struct {
		name              string
		comes, goes, want time.Duration
	}{
		{"none", time.Hour, time.Hour, farewellTime},
		{"one that is there", 0, 10 * time.Second, 10*time.Second + farewellTime},
		{"one that ends in the meantime", 0, farewellTime / 2, farewellTime/2 + farewellTime},
		{"one that comes and ends in the meantime", farewellTime / 4, farewellTime / 2, 2 * farewellTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var f farewell
				came := time.AfterFunc(c.comes, f.requests.came)
				went := time.AfterFunc(c.goes, f.requests.went)
				synctest.Wait()
				began := time.Now()
				f.bid(new(http.Server))
				if took := time.Since(began); took != c.want {
					t.Errorf("connections were closed after %s, want %s", took, c.want)
				}
				came.Stop()
				went.Stop()
			})
		})
	}
}
