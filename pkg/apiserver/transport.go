package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
)

// inProcessHost is the host of in-process URLs. Nothing resolves it.
const inProcessHost = "http://in-process.invalid"

// callerKey is the context key of an in-process request's caller. Only this package can
// set it, and requests from the network carry no context values, so no secret is needed.
type callerKey struct{}

// inProcessAuthenticator believes the in-process transport.
var inProcessAuthenticator = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
	u, ok := r.Context().Value(callerKey{}).(user.Info)
	if !ok {
		return nil, false, nil
	}
	return &authenticator.Response{User: u}, true, nil
})

// transport calls the API server's handler chain directly. It bypasses TLS and HTTP, but
// not authentication, authorization, admission or audit.
type transport struct {
	handler http.Handler
	users   *courtesy
	caller  user.Info
	// serving counts handler calls, so that the server can wait for them.
	serving *sync.WaitGroup
}

var _ http.RoundTripper = (*transport)(nil)

// RoundTrip runs the handler in a goroutine and returns as soon as the handler has
// answered or begun to stream. Cancelling the request's context, or closing the
// response's body, cancels the handler's context.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.users.letUsersGoFirst(req.Context())
	ctx, cancel := context.WithCancel(context.WithValue(req.Context(), callerKey{}, t.caller))
	in := req.Clone(ctx)
	in.RequestURI = req.URL.RequestURI()
	in.RemoteAddr = "127.0.0.1:0"
	in.Host = req.URL.Host
	in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/2.0", 2, 0
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := newResponseWriter(ctx)
	t.serving.Go(func() {
		// The response ends with the handler, also if that panics.
		defer func() {
			if p := recover(); p != nil {
				w.finish(fmt.Errorf("the API server aborted the request: %v", p))
				return
			}
			w.finish(nil)
		}()
		defer func() { _ = in.Body.Close() }() // nothing could be done about an error
		t.handler.ServeHTTP(w, in)
	})
	select {
	case <-w.answered:
	case <-ctx.Done():
		cancel()
		return nil, context.Cause(ctx)
	}
	if w.aborted != nil {
		cancel()
		return nil, w.aborted
	}
	return &http.Response{
		Status:        http.StatusText(w.status),
		StatusCode:    w.status,
		Proto:         in.Proto,
		ProtoMajor:    in.ProtoMajor,
		Header:        w.sent,
		Body:          &body{w: w, cancel: cancel},
		ContentLength: -1,
		Request:       req,
	}, nil
}

// streamAfter is how many bytes of a response are buffered before the reader sees them.
// Responses with a single object fit, and need no switch between goroutines.
const streamAfter = 64 << 10

// responseWriter is the handler's side of a response. Writes go to a buffer, and block
// while the buffer is full.
type responseWriter struct {
	ctx      context.Context
	header   http.Header
	answered chan struct{} // closed when status, sent and aborted are final

	// What follows is written before answered is closed, and read after it.
	status  int
	sent    http.Header
	aborted error

	// mu protects what follows.
	mu      sync.Mutex
	changed sync.Cond
	buf     bytes.Buffer
	flushed bool // the reader may see the buffer
	ended   bool // the handler has returned
	closed  bool // the reader has gone
	failure error
}

var (
	_ http.Flusher = (*responseWriter)(nil)
	_ io.Writer    = (*responseWriter)(nil)
)

func newResponseWriter(ctx context.Context) *responseWriter {
	w := &responseWriter{ctx: ctx, header: make(http.Header), answered: make(chan struct{})}
	w.changed.L = &w.mu
	// Wake a waiting reader or writer when ctx is cancelled.
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.closed = true
		w.changed.Broadcast()
	})
	return w
}

func (w *responseWriter) Header() http.Header { return w.header }

// CloseNotify makes the API server's response wrappers keep Flush. Nothing is sent on
// the channel: handlers watch the request's context.
func (w *responseWriter) CloseNotify() <-chan bool { return make(chan bool) }

func (w *responseWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeaderLocked(status)
}

func (w *responseWriter) writeHeaderLocked(status int) {
	if w.status == 0 {
		w.status = status
		w.sent = w.header.Clone()
	}
}

func (w *responseWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeaderLocked(http.StatusOK)
	for w.buf.Len() >= streamAfter && !w.closed {
		w.showLocked()
		w.changed.Wait()
	}
	if w.closed {
		return 0, errors.New("the client has gone")
	}
	return w.buf.Write(p)
}

func (w *responseWriter) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeaderLocked(http.StatusOK)
	w.showLocked()
}

// showLocked lets the reader see the buffer.
func (w *responseWriter) showLocked() {
	if !w.flushed {
		w.flushed = true
		close(w.answered)
	}
	w.changed.Broadcast()
}

// finish ends the response. A non-nil err means that the response is incomplete.
func (w *responseWriter) finish(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && w.ctx.Err() != nil {
		// The handler may have stopped half-way because the request's context ended.
		// It may have seen that before closed was set.
		err = context.Cause(w.ctx)
	}
	if !w.flushed {
		w.aborted = err
	}
	w.failure = err
	w.writeHeaderLocked(http.StatusOK)
	w.ended = true
	w.showLocked()
}

// body is the reader's side of a response.
type body struct {
	w      *responseWriter
	cancel context.CancelFunc
}

func (b *body) Read(p []byte) (int, error) {
	w := b.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.buf.Len() == 0 {
		switch {
		case w.ended && w.failure != nil:
			return 0, w.failure
		case w.ended:
			return 0, io.EOF
		case w.closed:
			return 0, w.ctx.Err()
		}
		w.changed.Wait()
	}
	n, err := w.buf.Read(p)
	if w.buf.Len() < streamAfter {
		w.changed.Broadcast()
	}
	return n, err
}

func (b *body) Close() error {
	b.cancel()
	return nil
}

// config returns a client configuration for in-process requests by the caller. The
// server, not the client, limits the rate.
func (t *transport) config() *rest.Config {
	return &rest.Config{Host: inProcessHost, Transport: t, QPS: -1}
}
