// Package bound sets contexts, such as deadlines, for HTTP requests of clients that do not
// do so themselves: clients that take no context, or that retry a request within one call.
package bound

import (
	"context"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
)

// Within derives the context for sending a request from the request's own context. The
// cancel function is called once: when the response's body is closed, or when there is no
// response. If Within returns an error, the request is not sent, and the client returns an
// error that wraps it. Within must be safe for concurrent use. It is called again each
// time the client retries the request.
type Within func(context.Context) (context.Context, context.CancelFunc, error)

// All returns a copy of config that sends every request with the context from within.
func All(config *rest.Config, within Within) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{next: next, within: within} })
	return config
}

// Writes is like All, but does not change requests with the methods GET, HEAD and OPTIONS.
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
