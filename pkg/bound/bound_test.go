package bound

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// client returns a client for a configuration changed by wrap, and the number of requests
// that have reached its server, which answers "done".
func client(t *testing.T, wrap func(*rest.Config) *rest.Config) (c *http.Client, url string, reached *int) {
	t.Helper()
	reached = new(int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		*reached++
		_, _ = io.WriteString(w, "done")
	}))
	t.Cleanup(server.Close)
	c, err := rest.HTTPClientFor(wrap(&rest.Config{Host: server.URL}))
	if err != nil {
		t.Fatal(err)
	}
	return c, server.URL, reached
}

func request(t *testing.T, method, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestContextLastsAsLongAsTheResponse(t *testing.T) {
	var sent context.Context
	c, url, _ := client(t, func(config *rest.Config) *rest.Config {
		return All(config, func(ctx context.Context) (context.Context, context.CancelFunc, error) {
			ctx, cancel := context.WithCancel(ctx)
			sent = ctx
			return ctx, cancel, nil
		})
	})
	resp, err := c.Do(request(t, http.MethodGet, url))
	if err != nil {
		t.Fatal(err)
	}
	if sent.Err() != nil {
		t.Error("the context has ended before the response was read")
	}
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "done" {
		t.Errorf("read %q, %v", b, err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	if sent.Err() == nil {
		t.Error("the context outlives the response")
	}
}

func TestContextIsReleasedWhenThereIsNoResponse(t *testing.T) {
	released := 0
	c, url, reached := client(t, func(config *rest.Config) *rest.Config {
		return All(config, func(ctx context.Context) (context.Context, context.CancelFunc, error) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, func() { released++ }, nil
		})
	})
	resp, err := c.Do(request(t, http.MethodGet, url))
	if err == nil {
		_ = resp.Body.Close()
	}
	if !errors.Is(err, context.Canceled) || *reached != 0 {
		t.Errorf("%v after %d requests", err, *reached)
	}
	if released != 1 {
		t.Errorf("released %d times", released)
	}
}

// closing is a request's body that knows whether it was closed.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

func TestOnlyWritesAreBounded(t *testing.T) {
	no := errors.New("not now")
	c, url, reached := client(t, func(config *rest.Config) *rest.Config {
		return Writes(config, func(context.Context) (context.Context, context.CancelFunc, error) { return nil, nil, no })
	})
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
		resp, err := c.Do(request(t, method, url))
		if err != nil {
			t.Errorf("%s: %v", method, err)
			continue
		}
		_ = resp.Body.Close()
	}
	if *reached != 3 {
		t.Errorf("%d of 3 reads were sent", *reached)
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		r, body := request(t, method, url), &closing{Reader: strings.NewReader("{}")}
		r.Body = body
		resp, err := c.Do(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		if !errors.Is(err, no) {
			t.Errorf("%s: %v", method, err)
		}
		if !body.closed {
			t.Errorf("%s: the request's body was left open", method)
		}
	}
	if *reached != 3 {
		t.Errorf("%d writes were sent", *reached-3)
	}
}
