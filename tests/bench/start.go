package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// start measures the time from the start of a server's process until it is ready, and until its collector has made a first
// decision: to delete an object whose owner does not exist. It also measures how long the server takes to stop.
func (b *bench) start(ctx context.Context) error {
	dir, err := b.newDir()
	if err != nil {
		return err
	}
	if err := b.startOne(ctx, dir, "fresh", atMost(4), ""); err != nil {
		return err
	}
	n := 10 * b.objects
	var ns string
	err = b.with(ctx, dir, []string{withoutCollector}, func(s *server) error {
		if ns, err = b.namespace(ctx, s); err != nil {
			return err
		}
		if err := s.create(ctx, configMaps, ns, groups(n), small); err != nil {
			return err
		}
		return s.createGarbage(ctx, configMaps, ns, "doomed")
	})
	if err != nil {
		return err
	}
	return b.startOne(ctx, dir, fmt.Sprintf("with %d objects", n), nil, ns)
}

// startOne starts a server once. Without a namespace there is no object yet that the collector could decide about, and
// one is made as soon as the server is ready.
func (b *bench) startOne(ctx context.Context, dir, what string, limit *budget, ns string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	s, err := b.launch(dir, "--https-listen-port", port)
	if err != nil {
		return err
	}
	defer func() { _ = s.cmd.Process.Kill() }() // after an error; else it has ended
	ready, err := s.awaitReadyz(ctx, "https://127.0.0.1:"+port+"/readyz")
	if err != nil {
		return err
	}
	b.report.add("start", what+", to readyz", ready.Seconds(), "s", limit)
	if err := s.connect(ctx); err != nil {
		return err
	}
	if ns == "" {
		ns = "default"
		if err := s.createGarbage(ctx, configMaps, ns, "doomed"); err != nil {
			return err
		}
	}
	if err := s.awaitEnd(ctx, configMaps, ns, "doomed"); err != nil {
		return err
	}
	b.report.add("start", what+", to the first decision", time.Since(s.began).Seconds(), "s", nil)
	began := time.Now()
	if err := s.stop(); err != nil {
		return err
	}
	b.report.add("start", what+", from SIGTERM to the end", time.Since(began).Seconds(), "s", nil)
	return nil
}

// awaitReadyz asks over the network, as a load balancer would.
func (s *server) awaitReadyz(ctx context.Context, url string) (after time.Duration, err error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // only to see whether it is there
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Second}
	err = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		answer, err := client.Do(req)
		if err != nil {
			return false, nil // not yet
		}
		after = time.Since(s.began)
		return answer.StatusCode == http.StatusOK, answer.Body.Close()
	})
	if err != nil {
		return 0, fmt.Errorf("waiting for %s: %w\n%s", url, err, s.logTail())
	}
	return after, nil
}

// freePort returns a port that nobody listens on.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return "", err
	}
	return port, l.Close()
}
