// Package bound enforces limits on HTTP requests whose senders do not keep them: a client
// that takes no context, or one that waits and sends a request again within one call.
package bound

import (
	"context"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
)

// Within returns the context to send a request with, made from the request's own, and
// what releases it, which is called once: when the response's body is closed, or when
// there is no response. An error refuses the request before it is sent; errors.Is finds
// it in what the client returns. It is called concurrently, and again for each time that
// a client sends the same request.
type Within func(context.Context) (context.Context, context.CancelFunc, error)

// All returns a copy of config through which every request is sent within what within
// returns.
func All(config *rest.Config, within Within) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{next: next, within: within} })
	return config
}

// Writes is All for requests that may change something; the others pass as they are.
func Writes(config *rest.Config, within Within) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &writes{reads: next, writes: &transport{next: next, within: within}}
	})
	return config
}

type writes struct{ reads, writes http.RoundTripper }

func (w *writes) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return w.reads.RoundTrip(req)
	}
	return w.writes.RoundTrip(req)
}

type transport struct {
	next   http.RoundTripper
	within Within
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, release, err := t.within(req.Context())
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // a RoundTripper has to; nothing has been read from it
		}
		return nil, err
	}
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		release()
		return nil, err
	}
	resp.Body = &body{ReadCloser: resp.Body, release: release}
	return resp, nil
}

// body releases its request's context when it is closed.
type body struct {
	io.ReadCloser
	release context.CancelFunc
}

func (b *body) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}
